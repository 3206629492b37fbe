"""Matplotlib style of the gallery; sphinx-gallery calls `fresh` before each page (`reset_modules`)."""

from typing import Any

import matplotlib as mpl

# Grays of the report, and the colors of Okabe and Ito, which color-blind readers can distinguish.
INK, QUIET, GRID = "#222222", "#666666", "#e6e6e6"
CYCLE = ["#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#7f7f7f"]

STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": QUIET,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.prop_cycle": mpl.cycler(color=CYCLE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "figure.dpi": 160,
    "figure.figsize": (8, 3.8),
    "font.size": 11,
    "grid.color": GRID,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def fresh(gallery_conf: dict[str, Any], fname: str) -> None:
    """Reset Matplotlib to this style."""
    mpl.rcdefaults()
    mpl.rcParams.update(STYLE)
