"""Decisions: one action per object, and what it is certified to be worth."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.frames import decisions_frame
from pippin._runtime.arrays import Classes, Flags, Indices, Vector, read_only
from pippin._runtime.showing import AMBER, BLUE, GREY, Chips, html_table, shown_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 10  # decisions in a notebook
TINTS = (BLUE, "rgba(0,158,115,0.30)", AMBER, "rgba(204,121,167,0.34)", GREY)  # of actions


class Decision(NamedTuple):
    """What to do with one object, and the utility that is certified for it.

    Attributes:
        action: its name.
        certificate: the utility that it has at least; −∞, if nothing is certified.
    """

    action: str
    certificate: float


@dataclass(frozen=True, eq=False, repr=False)
class Decisions:
    """One action per object, and its certificate: the utility that it has at least, as often as was asked for.

    Attributes:
        codes: the actions by number.
        certificates: the utilities; −∞ where nothing is certified.
        names: what the actions are called.
        classes: what may be true: the names of the columns.
        fallbacks: which objects had an empty set and got the fallback; None, if that cannot be.
        index: the pandas index of the objects, where they came in a pandas frame.

    >>> import numpy as np, pippin
    >>> sets = pippin.PredictionSets(np.array([1, 2, 1]), np.array([1, 0, 1, 0]), ("crop", "weed"))
    >>> utility = pippin.decisions.Utility([[-2, 1], [1, -1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
    >>> decisions = pippin.decisions.decide(sets, utility, fallback="ask")
    >>> decisions.actions, decisions.certificates
    (array(['spray', 'ask', 'leave'], dtype='<U5'), array([1. , 0.3, 1. ]))
    >>> decisions.counts()
    {'spray': 1, 'leave': 1, 'ask': 1}
    """

    codes: Indices
    certificates: Vector
    names: tuple[str, ...]
    classes: Classes
    fallbacks: Flags | None = None
    index: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", read_only(self.codes))
        object.__setattr__(self, "certificates", read_only(self.certificates))

    @cached_property
    def actions(self) -> NDArray[Any]:
        """The name of each object's action."""
        return read_only(np.array(self.names)[self.codes])

    @property
    def n_fallbacks(self) -> int:
        """How many objects had an empty set, so that nothing is certified."""
        return 0 if self.fallbacks is None else int(self.fallbacks.sum())

    def counts(self) -> dict[str, int]:
        """How often each action is taken, those never taken included."""
        found = np.bincount(self.codes, minlength=len(self.names))
        return dict(zip(self.names, found.tolist(), strict=True))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """How often each action is taken, divided by the utility that is certified; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.decisions import plot_actions

        return plot_actions(self, ax)

    def to_frame(self) -> Any:
        """A data frame with the columns action and certificate.

        pandas with its index kept, where the objects came in a pandas frame; polars otherwise.
        """
        return decisions_frame(self.actions, self.certificates, self.index)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, i: int) -> Decision:
        row = range(len(self))[i]
        return Decision(self.names[self.codes[row]], float(self.certificates[row]))

    def __iter__(self) -> Iterator[Decision]:
        return (self[i] for i in range(len(self)))

    def _repr_html_(self) -> str:
        first = [self[i] for i in range(min(SHOWN, len(self)))]
        names = range(len(first)) if self.index is None else self.index[: len(first)]
        rows = [
            (
                str(name),
                Chips([one.action], TINTS[self.names.index(one.action) % len(TINTS)]),
                _certified(one.certificate),
            )
            for name, one in zip(names, first, strict=True)
        ]
        told = repr(self).removeprefix("Decisions(").removesuffix(")")
        note = "Certified: what the action is worth at least, as often as was asked for."
        heads = ("object", "action", "certified utility")
        return html_table(told, heads, rows, left_out=len(self) - len(first), note=note)

    def __repr__(self) -> str:
        shares = ", ".join(f"{name} {100 * n / max(1, len(self)):.0f} %" for name, n in self.counts().items())
        return f"Decisions({len(self):,} objects: {shares})"


def _certified(certificate: float) -> str:
    return "nothing" if certificate == -np.inf else shown_number(certificate)
