"""Shows a network's held-out images to it again, changed: blurred, noisy, dark, in another camera's colours, unseen.

    python benchmarks/shift.py small                      # the folder small: a little ResNet, for processors
    pippin train seedlings --weights small --learning-rate 0.002 --size 64 --train-fraction 0.5 --flips both \\
        --epochs 30 --out probs.npz
    python benchmarks/shift.py seedlings probs.npz --unseen unseen --out seen.npz
    python benchmarks/shift_tables.py seen.npz

seen.npz holds the logits of every image under every change, and of the images below `unseen`, whose classes the network
was never shown; `shift_tables.py` needs no image.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

SIZES = ("weak", "medium", "strong")


def blur(pixels, size, rng):
    """As if the camera were out of focus: a Gaussian of 0.5, 1 or 2 pixels."""
    from PIL import Image, ImageFilter

    radius = (0.5, 1.0, 2.0)[size]
    image = Image.fromarray(pixels.transpose(1, 2, 0)).filter(ImageFilter.GaussianBlur(radius))
    return np.asarray(image).transpose(2, 0, 1)


def noise(pixels, size, rng):
    """A sensor pushed too far: Gaussian noise of 4, 8 or 16 of 255 on every pixel and colour."""
    return clipped(pixels + rng.normal(0, (4, 8, 16)[size], pixels.shape))


def darkness(pixels, size, rng):
    """Dusk: 80, 60 or 40% of the light."""
    return clipped(pixels * (0.8, 0.6, 0.4)[size])


def camera(pixels, size, rng):
    """Another camera's colours: red and blue scaled apart by 5, 10 or 20%, and another curve."""
    gain = (0.05, 0.1, 0.2)[size]
    scaled = pixels / 255 * np.array([1 + gain, 1, 1 - gain])[:, None, None]
    return clipped(255 * np.clip(scaled, 0, 1) ** (1 - gain))


def clipped(pixels):
    """Whole numbers of 8 bits."""
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


CHANGES: dict[str, Callable] = {"blur": blur, "noise": noise, "darkness": darkness, "camera": camera}


def see(folder, probs, unseen, out):
    """Writes the logits of every held-out image under every change, and those of unseen species."""
    from pippin.images.reading import read_image
    from pippin.images.training.network import make_network

    with np.load(probs) as held:
        files, classes = held["files"], tuple(held["classes"].tolist())
        labels = np.array([classes.index(name) for name in held["labels"].tolist()])
    weights = Path(probs).with_name("weights")
    size = given_size(weights)
    network = make_network(str(weights), classes, size, 0)
    paths = [Path(folder) / str(name) for name in files]
    novel = sorted(Path(unseen).glob("*/*.*")) if unseen else []
    rng = np.random.default_rng(0)
    written = {"labels": labels, "classes": np.array(classes)}
    pixels = [read_image(path, size) for path in paths]
    written["unchanged"] = logits_of(network, pixels)
    for name, change in CHANGES.items():
        for i, word in enumerate(SIZES):
            written[f"{name}, {word}"] = logits_of(network, [change(one, i, rng) for one in pixels])
            print(f"{name}, {word}", flush=True)
    if novel:
        written["unseen"] = logits_of(network, [read_image(path, size) for path in novel])
    np.savez_compressed(out, **written)


def given_size(weights):
    """Pixels of a side, as the network was trained."""
    import json

    return json.loads((weights / "preprocessor_config.json").read_text())["crop_size"]["height"]


def logits_of(network, images):
    """Logits of (3, size, size) images, in batches, where there is a graphics card on that."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.model.to(device).eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(images), 256):
            batch = torch.from_numpy(np.stack(images[start : start + 256])).to(device).float() / 255
            found.append(network(batch).cpu().numpy())
    return np.concatenate(found)


def small():
    """Writes the weights of a ResNet with a sixteenth of the work of a ResNet-18, untrained."""
    import torch
    from transformers import AutoModelForImageClassification, ResNetConfig

    torch.manual_seed(0)
    config = ResNetConfig(
        depths=[2] * 4, hidden_sizes=[16, 32, 64, 128], layer_type="basic", embedding_size=16, num_labels=10
    )
    AutoModelForImageClassification.from_config(config).save_pretrained("small")


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder of images that trained, or small")
    parser.add_argument("probs", nargs="?")
    parser.add_argument("--unseen")
    parser.add_argument("--out", default="seen.npz")
    given = parser.parse_args()
    if given.folder == "small":
        small()
    else:
        see(given.folder, given.probs, given.unseen, given.out)


if __name__ == "__main__":
    main()
