"""
How do I use it with PyTorch?
=============================

Calibrate with a ``DataLoader`` of rows that the network was not trained on,
then append ``ConformalHead`` as the last layer. It runs on the device of the
network, and under ``torch.compile``.

.. admonition:: The guarantee
   :class: guarantee

   The sets contain the true class with probability at least 1 − alpha for any
   network, and on the CPU the layer returns exactly the sets of
   ``predictor.predict``.
"""

# %%
# A small network on handwritten digits
# -------------------------------------

# sphinx_gallery_thumbnail_path = '_static/thumbnails/13.svg'
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import pippin
import pippin.torch

torch.manual_seed(0)
digits = load_digits()
x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
x = x + 0.2 * torch.randn_like(x)  # noise
y = torch.tensor(digits.target)
train, calibration, test = torch.randperm(len(x)).split(
    [600, 600, len(x) - 1200]
)

network = torch.nn.Sequential(
    torch.nn.Conv2d(1, 16, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Flatten(),
    torch.nn.Dropout(0.5),
    torch.nn.Linear(256, 10),
)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(network(x[train]), y[train]).backward()
    optimizer.step()

# %%
# Calibrate, and append the layer
# -------------------------------
# ``calibrate`` computes the logits in evaluation mode and without gradients.

loader = DataLoader(
    TensorDataset(x[calibration], y[calibration]), batch_size=100
)
predictor = pippin.torch.calibrate(network, loader, score="repip", alpha=0.02)
deployed = torch.nn.Sequential(
    network, pippin.torch.ConformalHead(predictor)
).eval()
with torch.no_grad():
    sets = deployed(x[test])
covered, size = (
    (sets.classes == y[test, None]).any(dim=1),
    sets.sizes.float().mean(),
)
print(predictor.describe())
print(
    f"coverage {covered.float().mean():.1%} on {len(test)} new images, "
    f"size {size:.2f}"
)

# %%
# ``sets.sizes`` and ``sets.classes`` are tensors. A row of ``classes`` has the
# classes of a set, most probable first, followed by −1.

sets.classes[:5]

# %%
# Sets of one, two and three digits. Orange sets do not contain the true digit.

import matplotlib.pyplot as plt

fig, axes = plt.subplots(3, 6, figsize=(7.5, 4.6))
for size, line in enumerate(axes, 1):
    of_size = torch.nonzero(sets.sizes == size)[:, 0].tolist()
    for ax, i in zip(line, of_size, strict=False):
        members = sets.classes[i, :size].tolist()
        colour = "C0" if y[test][i] in members else "C1"
        ax.imshow(-x[test][i, 0].numpy(), cmap="gray", interpolation="bicubic")
        ax.set_title(
            "{" + ", ".join(map(str, members)) + "}", loc="center", color=colour
        )
for ax in axes.flat:
    ax.axis("off")
fig.suptitle("Prediction sets with one, two and three digits", weight="bold")
plt.show()

# %%
# ``predict`` returns the same sets for arrays:

with torch.no_grad():
    probs = pippin.torch.probabilities(network.eval()(x[test]))
(predictor.predict(probs.numpy()).sizes == sets.sizes.numpy()).all()

# %%
# What can go wrong
# -----------------
# **The layer receives probabilities instead of logits.** If the network ends in
# a softmax, the layer applies a second softmax, whose output is nearly uniform.
# There is no error, but the sets are wrong. Pass ``from_probs=True``:

softmaxed = torch.nn.Sequential(network, torch.nn.Softmax(dim=1)).eval()
with torch.no_grad():
    for name, head in (
        ("ConformalHead(predictor)", pippin.torch.ConformalHead(predictor)),
        (
            "ConformalHead(predictor, from_probs=True)",
            pippin.torch.ConformalHead(predictor, from_probs=True),
        ),
    ):
        found = head(softmaxed(x[test]))
        share = (found.classes == y[test, None]).any(dim=1).float().mean()
        print(
            f"{name:42} coverage {share:.1%}, "
            f"size {found.sizes.float().mean():.2f}"
        )

# %%
# **The network is in training mode.** ``calibrate`` switches to evaluation mode
# and back. If you compute logits yourself, call ``eval()``. With dropout, the
# outputs for new images have another distribution than those for calibration:

network.train()
with torch.no_grad():
    dropout = pippin.torch.ConformalHead(predictor)(network(x[test]))
print(
    "coverage with dropout: "
    f"{(dropout.classes == y[test, None]).any(dim=1).float().mean():.1%}"
)

# %%
# Read on
# -------
# - :doc:`/export`: layers for thresholds per class and group, p-values and
#   decisions
# - :doc:`plot_14_hugging_face`: a model from the Hub
# - :func:`pippin.torch.calibrate`, :class:`pippin.torch.ConformalHead`,
#   :class:`pippin.torch.PValueHead`, :class:`pippin.torch.DecisionHead`
