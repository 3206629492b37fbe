"""Streams that are wrong from their first photograph: novelty test and monitor of a field model.

python benchmarks/novelty.py MODEL CLEAN --foreign PHOTO... --unknown FOLDER...

CLEAN has photographs of the known classes that the network was not trained on, in sub-folders. From these, dark (× 0.4)
and bright (× 1.8) photographs are made. Foreign photographs are cut into windows. For each kind the script prints the
share of windows that are novel, the share that gets the action ACTION without and with the novelty test, and for random
streams of 300 windows the number of windows until the alarm of the monitor (median and largest of 50 streams) and the
share with this action if all actions are careful after the alarm. False alarms are counted in 500 streams of clean
windows, with reference and stream drawn anew from the calibration windows and the clean ones.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from pippin._engine import martingale
from pippin.images import FieldModel
from pippin.images.training.folder import images_below

LENGTH, STREAMS, FALSE, DELTA = 300, 50, 500, 0.01


def opened(path):
    """Read an image."""
    with Image.open(path) as image:
        return image.convert("RGB")


def windows(path, side):
    """Cut a photograph into windows."""
    image = opened(path)
    rows, columns = image.height // side, image.width // side
    return [
        image.crop((x * side, y * side, (x + 1) * side, (y + 1) * side)) for y in range(rows) for x in range(columns)
    ]


def rows_until_alarm(reference, stream, seed):
    """Return the number of rows until the evidence reaches 1 / DELTA; infinity without alarm."""
    state, rng = martingale.new_martingale(), np.random.default_rng(seed)
    martingale.add_scores(state, np.asarray(reference, np.float64))
    step = martingale.updater(state, 0)
    for row, score in enumerate(stream, 1):
        if step(float(score), rng.random(), row, 0) >= -np.log(DELTA):
            return row
    return np.inf


def main(model, clean, foreign, unknown, action, level):
    """Print the table."""
    loaded = FieldModel.load(model)
    if level is not None:
        loaded = loaded.with_novelty(level)
    plain, side, rng = loaded.with_novelty(0), loaded.window or 112, np.random.default_rng(0)
    known = [opened(path) for path in images_below(clean)]
    kinds = {"clean": known}
    kinds["dark × 0.4"] = [image.point(lambda value: int(0.4 * value)) for image in known]
    kinds["bright × 1.8"] = [image.point(lambda value: min(255, int(1.8 * value))) for image in known]
    kinds["black"] = [Image.new("RGB", (side, side))] * 50
    kinds["gray"] = [Image.new("RGB", (side, side), (128, 128, 128))] * 50
    kinds["foreign"] = [window for path in foreign for window in windows(path, side)]
    kinds |= {folder.name: [opened(path) for path in images_below(folder)] for folder in unknown}
    print(f"{loaded.describe()}\n")
    print(f"| stream | windows | novel | {action} | with test | rows to alarm (largest) | {action} until alarm |")
    print("|---|---|---|---|---|---|---|")
    scores = {}
    for kind, images in kinds.items():
        tested, untested = ([each.look(image) for image in images] for each in (loaded, plain))
        novel = np.array([look.novel[0] for look in tested])
        before, after = (np.array([look.actions[0] for look in looks]) for looks in (untested, tested))
        scores[kind] = np.array([look.strangeness[0] for look in tested])
        alarms, acted = [], []
        for seed in range(STREAMS):
            order = np.random.default_rng(seed).permutation(len(images))
            order = np.resize(order, LENGTH)  # small sets of images are repeated
            alarm = rows_until_alarm(loaded.novelty_test.one_per_unit(), scores[kind][order], seed)
            acted.append(np.mean((after[order] == action) & (np.arange(1, LENGTH + 1) < alarm)))
            alarms.append(alarm)
        shares = [f"{100 * np.mean(values):.1f}%" for values in (novel, before == action, after == action, acted)]
        rows = f"{np.median(alarms):g} ({np.max(alarms):g})"
        print(f"| {kind} | {len(images)} | {' | '.join(shares[:3])} | {rows} | {shares[3]} |", flush=True)
        if kind == "clean":
            print(f"| actions changed | | | | {100 * np.mean(before != after):.1f}% | | |")
    pool, n = np.append(loaded.novelty_test.scores, scores["clean"]), len(loaded.novelty_test.scores)
    false = 0
    for seed in range(FALSE):
        order = rng.permutation(len(pool))
        false += rows_until_alarm(pool[order[:n]], pool[order[n : n + LENGTH]], seed) < np.inf
    print(f"\nFalse alarms: {false} of {FALSE} clean streams of {LENGTH} windows, delta {DELTA:g}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("clean", type=Path)
    parser.add_argument("--foreign", type=Path, nargs="+", default=[])
    parser.add_argument("--unknown", type=Path, nargs="+", default=[])
    parser.add_argument("--action", default="spray")
    parser.add_argument("--level", type=float)
    given = parser.parse_args()
    sys.exit(main(given.model, given.clean, given.foreign, given.unknown, given.action, given.level))
