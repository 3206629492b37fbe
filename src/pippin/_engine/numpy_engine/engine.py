"""All that `protocol.Engine` asks for, in NumPy."""

from pippin._engine.numpy_engine.decisions import decision_scores, decisions
from pippin._engine.numpy_engine.p_values import p_values
from pippin._engine.numpy_engine.products import add_product
from pippin._engine.numpy_engine.scores import class_scores, label_scores, members
from pippin._engine.numpy_engine.splits import count_splits, near_places

__all__ = [
    "INSPECTS",
    "add_product",
    "class_scores",
    "count_splits",
    "decision_scores",
    "decisions",
    "label_scores",
    "members",
    "near_places",
    "p_values",
]

INSPECTS = False
