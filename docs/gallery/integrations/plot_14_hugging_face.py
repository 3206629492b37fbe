"""
How do I calibrate a Hugging Face model?
========================================

Load it as you always do, run it over labelled images that it was not trained on, and
hand over the logits. The model's own names of classes come along.

.. admonition:: The guarantee
   :class: guarantee

   Sets hold the true class with probability at least 1 − alpha for *any* model, a bad
   one too: it pays in size, not in coverage.
"""

# %%
# A model in a folder
# -------------------
# This page runs without a connection, so it makes a tiny Vision Transformer with random
# weights and saves it as the Hub would store it.

import tempfile

import torch
from sklearn.datasets import load_digits
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)
from transformers.utils import logging

import pippin
import pippin.torch

logging.disable_progress_bar()
torch.manual_seed(0)
folder = tempfile.mkdtemp()
names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
sizes = {
    "image_size": 16,
    "patch_size": 4,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
config = ViTConfig(
    **sizes,
    intermediate_size=96,
    id2label=dict(enumerate(names)),
    label2id={n: i for i, n in enumerate(names)},
)
processor = ViTImageProcessorPil(size={"height": 16, "width": 16})
_ = (
    processor.save_pretrained(folder),
    ViTForImageClassification(config).save_pretrained(folder),
)

# %%
# From here on it is the code that you would write for any name on the Hub:

processor = AutoImageProcessor.from_pretrained(folder)
model = AutoModelForImageClassification.from_pretrained(folder).eval()
classes = [model.config.id2label[k] for k in range(model.config.num_labels)]
print(
    f"{type(model).__name__}, {model.num_parameters():,} parameters, classes "
    f"{classes[0]} … {classes[-1]}"
)

# %%
# Run it over labelled images
# ---------------------------

from PIL import Image

digits = load_digits()
images = [
    Image.fromarray((pixels * 15.9).astype("uint8")).convert("RGB")
    for pixels in digits.images
]
inputs = processor(images=images, return_tensors="pt")["pixel_values"]
labels = torch.tensor(digits.target)
train, calibration, test = torch.randperm(len(labels)).split(
    [600, 600, len(labels) - 1200]
)


def logits(rows):
    """What the model says of these images, in batches and without gradients."""
    with torch.no_grad():
        return torch.cat(
            [model(pixel_values=inputs[part]).logits for part in rows.split(100)]
        )


def sets_of(rows):
    """Prediction sets of these images, calibrated on the calibration images."""
    predictor = pippin.torch.calibrate(
        logits(calibration), labels[calibration], "repip", alpha=0.1, classes=classes
    )
    return predictor.predict(logits(rows).numpy(), from_logits=True)


def verdict(sets):
    """Whether these sets of the test images cover what was asked for."""
    return pippin.evaluate(
        sets, labels[test].numpy(), alpha=0.1, n_calibration=len(calibration)
    ).verdict


untrained = sets_of(test)
print(untrained)
print(verdict(untrained))

# %%
# A model that knows nothing names nearly all classes, and covers 90%. Now train it for
# some seconds:

optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
model.train()
for _ in range(12):
    for part in train[torch.randperm(len(train))].split(50):
        optimizer.zero_grad()
        model(pixel_values=inputs[part], labels=labels[part]).loss.backward()
        optimizer.step()
model.eval()
trained = sets_of(test)
print(trained)
print(verdict(trained))

# %%

import matplotlib.pyplot as plt
import numpy as np

fig, ax = plt.subplots()
sizes = np.arange(11)
for side, sets, name, colour in (
    (-0.2, untrained, "random weights", "C6"),
    (0.2, trained, "trained for seconds", "C0"),
):
    share = 100 * np.bincount(sets.sizes, minlength=11) / len(sets)
    covered = pippin.metrics.coverage(sets, labels[test].numpy())
    ax.bar(
        sizes + side,
        share,
        width=0.4,
        color=colour,
        label=f"{name}: {covered:.0%} covered",
    )
ax.set_xticks(sizes)
ax.set(xlabel="classes in the set", ylabel="% of the sets")
ax.set_title("A better model has smaller sets, not more coverage")
ax.grid(axis="x", visible=False)
ax.legend(loc="upper center")
plt.show()

# %%
# What can go wrong
# -----------------
# **A pipeline that keeps the best five.** ``transformers.pipeline`` throws the other
# classes away unless it is told not to. What is left does not sum to one, and pippin
# refuses it. (Dividing by the sum would hide that five classes are missing.)

from transformers import pipeline

classify = pipeline("image-classification", model=model, image_processor=processor)


def table(found):
    """One row of probabilities per image, in the order of the model's classes."""
    return np.array(
        [
            [
                {one["label"]: one["score"] for one in row}.get(name, 0)
                for name in classes
            ]
            for row in found
        ]
    )


some = [images[i] for i in calibration[:200].tolist()]
truth = labels[calibration[:200]].numpy()
try:
    pippin.calibrate(table(classify(some)), truth, classes=classes)
except pippin.InputError as error:
    print(error)

# %%
# With as many as there are classes, nothing is missing:

pippin.calibrate(table(classify(some, top_k=len(classes))), truth, classes=classes)

# %%
# **Classes in another order.** A data set may number its classes otherwise than the
# model. Give labels as *names*, with ``classes=``, and the order of the numbers does
# not matter. With wrong numbers, sets still cover, because calibration is honest about
# how bad it all looks:

wrong = pippin.torch.calibrate(
    logits(calibration), (labels[calibration] + 1) % 10, "repip", alpha=0.1
)
wrong.predict(logits(test).numpy(), from_logits=True)

# %%
# A mean size near the number of classes is the sign to look for.
#
# Read on
# -------
# - :doc:`/field`: ``pippin train`` and ``pippin field``, from a folder of photographs
#   to a model in the field
# - :doc:`plot_13_pytorch`: sets as the last layer of the network
# - :func:`pippin.torch.calibrate`, :meth:`pippin.ConformalPredictor.predict`
