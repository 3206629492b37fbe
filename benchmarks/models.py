"""What a second model is worth: a stack against each model alone, and against means, on the same splits.

    python benchmarks/models.py --digits [--splits 50]
    python benchmarks/models.py FIRST.npz SECOND.npz … [--splits 50]
    python benchmarks/models.py VIEWS.npz --views [--splits 50]
    python benchmarks/models.py --forest FOLDER FIRST.npz SECOND.npz
    python benchmarks/models.py --network FOLDER FIRST.npz SECOND.npz

The files hold logits or probs, and labels, of the same rows by each model. With --views a file holds `views`, logits of
eight flips and turns of each image by one network, which are compared with its logits of the images as they are.
--forest and --network train a second model on the images of FOLDER that are not among the `files` of FIRST, and write
its outputs for those of FIRST. --digits trains a forest and a support vector machine on noisy digits of scikit-learn.

In each split a quarter of the rows learns and a quarter calibrates; a plain method calibrates on both, and all are
tested on the other half. Sizes are mean sizes along SOCOP's front over μ at the share of singletons that PIP has with
the best model.
"""

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table
from sharpen import at_singletons, load, point

import pippin

PRICES = (0, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 512, 65536)


def softmax(u):
    """Probabilities of logits (…, K)."""
    powers = np.exp(u - u.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def methods(models, labels, learn):
    """Probabilities by name, and True if rows were spent on learning them."""
    mean, geometric = np.mean(models, axis=0), softmax(np.mean(np.log(np.maximum(models, 1e-6)), axis=0))
    plain = {f"model {m}": one for m, one in enumerate(models)} | {"mean": mean, "geometric mean": geometric}
    if len(models) > 4:  # views of one network
        plain = {"model 0": models[0], "mean": mean, "geometric mean": geometric}
    found = {name: (probs, False) for name, probs in plain.items()}
    for name, probs in plain.items():
        found[f"{name}, sharpened"] = pippin.sharpen(probs[learn], labels[learn])(probs), True
    stack = pippin.models.stack([one[learn] for one in models], labels[learn])
    found["stack"] = stack(models), True
    return found, stack


def measure(models, labels, seed):
    """PIP's singletons by each model, then for each method SOCOP's front of size, singletons and coverage."""
    warnings.simplefilter("ignore")
    learn, calibrate, test = np.split(
        np.random.default_rng(seed).permutation(len(labels)), [len(labels) // 4, len(labels) // 2]
    )
    both = np.concatenate([learn, calibrate])
    pip = [point((p[both], labels[both]), (p[test], labels[test]), "pip", 0.1)[1] for p in models]
    found, stack = methods(models, labels, learn)
    fronts = []
    for probs, charged in found.values():
        rows = calibrate if charged else both
        given = (probs[rows], labels[rows]), (probs[test], labels[test])
        fronts.append([point(*given, pippin.scores.socop(mu), 0.1) for mu in PRICES])
    return np.array(pip), np.array(fronts), list(found), np.array(stack.pool.weights)


def compare(what, models, labels, splits):
    """Print a row per method: mean size at PIP's singletons, difference to the best model alone, sharpened."""
    models = [np.asarray(one, dtype=np.float64) for one in models]
    with ProcessPoolExecutor(1) as pool:
        results = list(pool.map(partial(measure, models, labels), range(splits)))
    pip, fronts, weights = (np.array([one[i] for one in results]) for i in (0, 1, 3))
    names = results[0][2]
    alone = [names.index(name) for name in names if name.startswith("model") and name.endswith("sharpened")]
    sizes = np.array([fronts[:, i].mean(axis=0) for i in range(len(names))])
    best = min(alone, key=lambda i: sizes[i, 0, 0])
    rate = pip[:, alone.index(best)].mean()
    at = np.array([[at_singletons(front, rate) for front in of_split] for of_split in fronts])
    accuracy = ", ".join(f"{(one.argmax(axis=1) == labels).mean():.3f}" for one in models)
    table = Table("method", "size", f"difference to {names[best]}", "socop", "coverage")
    table.title = (
        f"{what}: {len(labels):,} rows, accuracy {accuracy}, {splits} splits, PIP's singletons {100 * rate:.1f}%"
    )
    eight = PRICES.index(8)
    for i, name in enumerate(names):
        difference = at[:, i] - at[:, best]
        error = difference.std(ddof=1) / np.sqrt(splits)
        share = 100 * difference.mean() / at[:, best].mean()
        size, singletons, coverage = sizes[i, eight]
        change = "" if i == best else f"{difference.mean():+.3f} ± {error:.3f} ({share:+.1f}%)"
        table.add_row(
            name, f"{at[:, i].mean():.3f}", change, f"{size:.2f} / {100 * singletons:.0f}%", f"{coverage:.4f}"
        )
    Console(width=140).print(table)
    left_out = 100 * (weights == 0).any(axis=1).mean()
    print(
        f"weights of the stack {np.round(weights.mean(axis=0), 2)}; a model left out in {left_out:.0f}% of the splits"
    )


def digits():
    """A forest and a support vector machine, trained on 300 digits with noise, on the other 1,497."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    warnings.simplefilter("ignore")
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    images = images + rng.normal(0, 4, images.shape)
    train, rest = np.split(rng.permutation(len(labels)), [300])
    machine = make_pipeline(StandardScaler(), SVC(probability=True, random_state=0))
    models = RandomForestClassifier(300, random_state=0), machine
    return [model.fit(images[train], labels[train]).predict_proba(images[rest]) for model in models], labels[rest]


def division(folder, first):
    """Files of training images and of the rows of FIRST, and the labels of both."""
    with np.load(first) as data:
        held, classes = data["files"].tolist(), data["classes"].tolist()
    every = sorted(str(path.relative_to(folder)) for path in Path(folder).glob("*/*.jpg"))
    train = sorted(set(every) - set(held))
    return train, held, *(np.array([classes.index(Path(file).parts[0]) for file in part]) for part in (train, held))


def colors(path):
    """Histograms of color, of edges and of the distance from the center, of an image and of its plant."""
    from PIL import Image

    image = Image.open(path).convert("RGB").resize((64, 64))
    rgb, hsv = (np.asarray(image.convert(mode), dtype=np.float64) / 255 for mode in ("RGB", "HSV"))
    excess = 2 * rgb[..., 1] - rgb[..., 0] - rgb[..., 2]
    plant = excess > 0.1
    size = plant.sum() + 1e-9
    y, x = np.nonzero(plant) if plant.any() else np.zeros((2, 1))
    grey = rgb.mean(axis=2)
    down, right = np.gradient(grey)
    slope = np.hypot(down, right)
    edges = [(plant[1:] != plant[:-1]).sum(), (plant[:, 1:] != plant[:, :-1]).sum()]
    return np.concatenate(
        [
            *(np.histogram(hsv[..., k], 16, (0, 1))[0] / 4096 for k in range(3)),
            *(np.histogram(hsv[..., k][plant], 16, (0, 1))[0] / size for k in range(3)),
            np.histogram(np.arctan2(down, right), 8, (-np.pi, np.pi), weights=slope)[0] / (slope.sum() + 1e-9),
            np.histogram(np.hypot(y - 31.5, x - 31.5), 12, (0, 45))[0] / 4096,
            [plant.mean(), *(edge / size for edge in edges), y.std(), x.std(), (excess * plant).sum() / size],
        ]
    )


def forest(folder, first, out):
    """Train extremely randomized trees on histograms."""
    from sklearn.ensemble import ExtraTreesClassifier

    train, held, labels, held_labels = division(folder, first)
    seen, new = (np.array([colors(Path(folder) / file) for file in part]) for part in (train, held))
    trees = ExtraTreesClassifier(500, min_samples_leaf=2, random_state=0).fit(seen, labels)
    probs = trees.predict_proba(new)
    np.savez(out, probs=probs, labels=held_labels, files=held)
    print(f"{len(train)} training images, accuracy {(probs.argmax(axis=1) == held_labels).mean():.4f}")


def network(folder, first, out, epochs=80, width=24, size=72, seed=1):
    """Train a narrow residual network from scratch as `pippin train` does; also write logits of 8 views."""
    import torch
    from transformers import AutoModelForImageClassification, ResNetConfig

    from pippin.images.training import Options
    from pippin.images.training.fit import _Session
    from pippin.images.training.folder import Pixels, list_images
    from pippin.images.training.network import MEAN, SD, TorchNetwork

    images = list_images(Path(folder))
    number = {file: i for i, file in enumerate(images.files)}
    train, held, _, labels = division(folder, first)
    train, rows = (np.array([number[file] for file in part]) for part in (train, held))
    pixels = Pixels(images, size, 1 << 31, lambda more: None)
    torch.manual_seed(seed)
    shape = {"hidden_sizes": [width, 2 * width, 4 * width, 8 * width], "embedding_size": width}
    config = ResNetConfig(layer_type="basic", depths=[2, 2, 2, 2], num_labels=len(images.classes), **shape)
    net = TorchNetwork(AutoModelForImageClassification.from_config(config), MEAN, SD)
    net.model.to(memory_format=torch.channels_last)
    options = Options("none", epochs, 32, size, 1e-3, flips="both", seed=seed)
    optimizer = torch.optim.AdamW(net.model.parameters(), lr=1e-3, weight_decay=0.05)
    session = _Session(net, optimizer, pixels, images, options)
    for epoch in range(1, epochs + 1):
        print(f"epoch {epoch}: loss {session.run_epoch(train, epoch, lambda more: None):.4f}", flush=True)
    net.model.eval()
    views = []
    with torch.inference_mode():
        for view in range(8):
            parts = []
            for start in range(0, len(rows), 64):
                block = torch.rot90(net.to_input(pixels.batch(rows[start : start + 64])), view % 4, (2, 3))
                parts.append(net((torch.flip(block, (3,)) if view >= 4 else block).contiguous()).numpy())
            views.append(np.concatenate(parts))
            print(f"view {view}: accuracy {(views[-1].argmax(axis=1) == labels).mean():.4f}", flush=True)
    np.savez(out, logits=views[0], views=np.stack(views), labels=labels, files=held)


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--splits", type=int, default=50)
    for flag in ("digits", "views", "forest", "network"):
        parser.add_argument(f"--{flag}", action="store_true")
    asked = parser.parse_args()
    if asked.forest or asked.network:
        (forest if asked.forest else network)(*asked.files)
    elif asked.digits:
        compare("digits, forest and support vector machine", *digits(), asked.splits)
    elif asked.views:
        with np.load(asked.files[0]) as data:
            models, labels = list(softmax(data["views"].astype(np.float64))), data["labels"].astype(np.int64)
        compare("eight views", models, labels, asked.splits)
    elif asked.files:
        every = [load(path) for path in asked.files]
        compare(
            " and ".join(Path(path).stem for path in asked.files), [one[0] for one in every], every[0][1], asked.splits
        )
    else:
        parser.error("name files, or pass --digits")


if __name__ == "__main__":
    main()
