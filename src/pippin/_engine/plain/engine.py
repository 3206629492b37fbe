"""All that `protocol.Engine` asks for, in NumPy."""

from pippin._engine.plain.decisions import decision_scores, decisions
from pippin._engine.plain.p_values import p_values
from pippin._engine.plain.products import add_logits, add_mixed, add_product, centre
from pippin._engine.plain.scores import at_places, band, class_scores, label_places, label_scores, members
from pippin._engine.plain.splits import count_splits, deal
from pippin._engine.protocol import Places
from pippin._engine.selecting import smallest
from pippin._runtime.arrays import Vector
from pippin._theory.formula import Coefficients

__all__ = [
    "INSPECTS",
    "add_logits",
    "add_mixed",
    "add_product",
    "band",
    "centre",
    "class_scores",
    "count_splits",
    "deal",
    "decision_scores",
    "decisions",
    "label_places",
    "label_scores",
    "members",
    "p_values",
    "place_scores",
    "smallest",
]

INSPECTS = False


def place_scores(places: Places, c: Coefficients, u: Vector) -> Vector:
    """The score of every place; u has one number per row."""
    return at_places(places, c)(u)
