"""
How do I calibrate a Hugging Face model?
========================================

Load the model as usual, compute logits of labeled images that it was not
trained on, and calibrate on them. The class names come from the model.

.. admonition:: The guarantee
   :class: guarantee

   Sets contain the true class with probability at least 1 − alpha for *any*
   model; a poor model has large sets, not low coverage.
"""

# %%
# A model in a folder
# -------------------
# The page runs offline: it creates a tiny Vision Transformer with random
# weights and saves it in the format of the Hub.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/14.svg'
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
names = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
]
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
# From here on, the code is the same for any model on the Hub:

processor = AutoImageProcessor.from_pretrained(folder)
model = AutoModelForImageClassification.from_pretrained(folder).eval()
classes = [model.config.id2label[k] for k in range(model.config.num_labels)]
print(
    f"{type(model).__name__}, {model.num_parameters():,} parameters, classes "
    f"{classes[0]} … {classes[-1]}"
)

# %%
# Calibrate on labeled images
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
    """Return the logits of these images, computed in batches."""
    with torch.no_grad():
        return torch.cat(
            [
                model(pixel_values=inputs[part]).logits
                for part in rows.split(100)
            ]
        )


def sets_of(rows):
    """Return prediction sets of these images."""
    predictor = pippin.torch.calibrate(
        logits(calibration),
        labels[calibration],
        "repip",
        alpha=0.1,
        classes=classes,
    )
    return predictor.predict(logits(rows).numpy(), from_logits=True)


def verdict(sets):
    """Compare the coverage on the test images with the guarantee."""
    return pippin.evaluate(
        sets, labels[test].numpy(), alpha=0.1, n_calibration=len(calibration)
    ).verdict


untrained = sets_of(test)
print(untrained)
print(verdict(untrained))

# %%
# The untrained model has nearly all classes in its sets, and coverage of 90%.
# Now train it for some seconds:

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
    (0.2, trained, "trained", "C0"),
):
    share = 100 * np.bincount(sets.sizes, minlength=11) / len(sets)
    covered = pippin.metrics.coverage(sets, labels[test].numpy())
    ax.bar(
        sizes + side,
        share,
        width=0.4,
        color=colour,
        label=f"{name}: coverage {covered:.0%}",
    )
ax.set_xticks(sizes)
ax.set(xlabel="size (classes in the set)", ylabel="% of the sets")
ax.set_title("A better model has smaller sets, not more coverage")
ax.grid(axis="x", visible=False)
ax.legend(loc="upper center")
plt.show()

# %%
# What can go wrong
# -----------------
# **A pipeline returns five classes only.** By default,
# ``transformers.pipeline`` returns the five most probable classes. Their
# probabilities do not sum to 1, and pippin raises an error. (Normalizing them
# would hide that classes are missing.)

from transformers import pipeline

classify = pipeline(
    "image-classification", model=model, image_processor=processor
)


def table(found):
    """Return a row of probabilities per image, in the order of the classes."""
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
# With ``top_k`` equal to the number of classes, the rows are complete:

pippin.calibrate(
    table(classify(some, top_k=len(classes))), truth, classes=classes
)

# %%
# **Classes are numbered differently.** A data set may number its classes in
# another order than the model. If you pass labels as *names* with ``classes=``,
# the order has no influence. With wrong numbers coverage is kept, but the sets
# are large:

wrong = pippin.torch.calibrate(
    logits(calibration), (labels[calibration] + 1) % 10, "repip", alpha=0.1
)
wrong.predict(logits(test).numpy(), from_logits=True)

# %%
# A mean size close to the number of classes indicates this error.
#
# Read on
# -------
# - :doc:`/field`: ``pippin train`` and ``pippin field`` for folders of images
# - :doc:`plot_13_pytorch`: sets as the last layer of the network
# - :func:`pippin.torch.calibrate`, :meth:`pippin.ConformalPredictor.predict`
