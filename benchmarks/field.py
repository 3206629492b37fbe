"""What the parts of a field model cost on one core: reading, ResNet18 at 224 pixels, judging, drawing.

Judging is what is made of the logits: sets, p-values and decisions.

python benchmarks/field.py            # milliseconds of the processor, one window and a photograph of 35
"""

import argparse
import os
import sys
import time
from functools import partial

os.environ["PIPPIN_NUM_THREADS"] = "1"

import numpy as np
import onnxruntime
import torch

import pippin
from pippin._engine import dispatch
from pippin.images import FieldModel
from pippin.images.backends import OnnxNetwork, make_graph
from pippin.images.reading import crop_square, open_image
from pippin.images.training.folder import TrainingRecord
from pippin.images.training.network import make_network

SIZE = 224
CROPS = ("maize", "common_wheat", "sugar_beet")
WORTH = {"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1}, "ask": {"weed": 0.3, "crop": 0.3}}


def models(folder):
    """The same model in torch and in onnxruntime, for each kind of predictor; weights are random."""
    data = pippin.load_example()
    classes = tuple(data.classes)
    network = make_network("none", classes, SIZE, seed=0)
    network.model.eval().to(memory_format=torch.channels_last)  # as a field model has it
    empty = np.empty((0, len(classes)), np.float32)
    training = TrainingRecord(classes, (), np.empty(0, np.str_), empty, np.empty(0, np.int64), "")
    graph = OnnxNetwork(make_graph(network, SIZE, training, []), folder, network.mean, network.sd)
    utility = pippin.decisions.Utility(WORTH, kinds={name: "crop" if name in CROPS else "weed" for name in classes})
    decider = pippin.decisions.calibrate(data.probs, data.labels, utility, 0.02, classes=classes)
    for per in (None, "class"):
        predictor = pippin.calibrate(data.probs, data.labels, "repip", classes=classes, per=per)
        for name, seer in (("torch", network), ("onnxruntime", graph)):
            yield name, per or "all", FieldModel(seer, SIZE, training, predictor, decider, window=SIZE)


def seconds(work, least):
    """Of the processor, for one call: the shortest mean of seven times as many calls as fill `least` seconds."""
    work()
    began = time.process_time()
    work()
    calls = max(1, int(least / max(time.process_time() - began, 1e-6)))
    found = []
    for _ in range(7):
        began = time.process_time()
        for _ in range(calls):
            work()
        found.append((time.process_time() - began) / calls)
    return min(found)


def main(least):
    torch.set_num_threads(1)
    rng, every = np.random.default_rng(0), []
    dispatch.WORTH_COMPILING = float("inf")  # so that NumPy serves until warm_up
    for name, per, model in models(folder=None):
        for rows, columns in ((1, 1), (5, 7)):
            photo = rng.integers(0, 256, (rows * SIZE + 24, columns * SIZE + 32, 3), dtype=np.uint8)
            look = model.look(photo)
            every.append((name, per, model, photo, look, seconds(partial(model.judge, look.logits), least)))
    pippin.warm_up()
    print(f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}; milliseconds of one core")
    print("| network in | thresholds | windows | reading | network | judging in NumPy | compiled | share | drawing |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, per, model, photo, look, in_numpy in every:
        pixels = read(photo, look)
        reading = seconds(partial(read, photo, look), least)
        network = seconds(partial(model.logits, pixels), least)
        compiled = seconds(partial(model.judge, look.logits), least)
        shares = f"{in_numpy / network:.2%}, {compiled / network:.2%}"
        times = [f"{1000 * value:.2f}" for value in (reading, network, in_numpy, compiled)]
        drawn = f"{1000 * seconds(look.draw, least):.1f}"
        print("| " + " | ".join([name, per, str(len(look)), *times, shares, drawn]) + " |", flush=True)


def read(photo, look):
    """The windows as pixels."""
    opened = open_image(photo)
    return np.stack([crop_square(opened.crop(box), SIZE) for box in look.boxes()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--least", type=float, default=0.5, help="seconds that each time is taken over")
    sys.exit(main(parser.parse_args().least))
