"""
How do I use it with PyTorch?
=============================

Calibrate with a ``DataLoader`` that the network was not trained on, and make the sets
its last layer. The layer runs where the network runs, on the CPU or the GPU, under
``torch.compile`` too.

.. admonition:: The guarantee
   :class: guarantee

   The layer gives, on the CPU, exactly the sets of ``pippin``: they hold the true class
   with probability at least 1 − alpha, whatever the network is.
"""

# %%
# A small network on handwritten digits
# -------------------------------------

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import pippin
import pippin.torch

torch.manual_seed(0)
digits = load_digits()
x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
x = x + 0.2 * torch.randn_like(x)  # a bad camera
y = torch.tensor(digits.target)
train, calibration, test = torch.randperm(len(x)).split([600, 600, len(x) - 1200])

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
# ``calibrate`` runs the network in eval mode, without gradients, and takes its logits.

loader = DataLoader(TensorDataset(x[calibration], y[calibration]), batch_size=100)
predictor = pippin.torch.calibrate(network, loader, score="repip", alpha=0.02)
deployed = torch.nn.Sequential(network, pippin.torch.ConformalHead(predictor)).eval()
with torch.no_grad():
    sets = deployed(x[test])
covered, size = (sets.classes == y[test, None]).any(dim=1), sets.sizes.float().mean()
print(predictor.describe())
print(
    f"{covered.float().mean():.1%} of {len(test)} new sets hold the true digit; "
    f"{size:.2f} digits per set"
)

# %%
# ``sets.sizes`` and ``sets.classes`` are tensors: the classes of each set, most
# probable first, then −1.

sets.classes[:5]

# %%
# Easy images get one digit, doubtful ones several:

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
fig.suptitle("One, two and three digits; orange sets miss the truth", weight="bold")
plt.show()

# %%
# The same sets from the array interface, to the last one:

with torch.no_grad():
    probs = pippin.torch.probabilities(network.eval()(x[test]))
(predictor.predict(probs.numpy()).sizes == sets.sizes.numpy()).all()

# %%
# What can go wrong
# -----------------
# **Probabilities where logits are expected.** Somebody adds a softmax to the network
# after it was calibrated. Nothing crashes, the shapes are right, and the layer takes a
# softmax of a softmax, which is nearly flat:

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
            f"{name:42} {share:.1%} covered, {found.sizes.float().mean():.2f} "
            "digits per set"
        )

# %%
# **A network in training mode.** ``calibrate`` switches to eval mode and back; who
# computes logits by hand must do it too. With dropout on, the new images meet another
# network than those that calibrated:

network.train()
with torch.no_grad():
    shaken = pippin.torch.ConformalHead(predictor)(network(x[test]))
print(
    f"{(shaken.classes == y[test, None]).any(dim=1).float().mean():.1%} covered "
    "with dropout left on"
)

# %%
# Read on
# -------
# - :doc:`/export`: what the layer does, thresholds per class and group, decisions as a
#   layer
# - :doc:`plot_14_hugging_face`: a model from a folder
# - :func:`pippin.torch.calibrate`, :class:`pippin.torch.ConformalHead`,
#   :class:`pippin.torch.PValueHead`, :class:`pippin.torch.DecisionHead`
