"""The paper's six toy cases: what IP, margin and PIP say of one class with p = 0.1.

Only the classes above it matter. The paper's figure is not reproduced here; the
probabilities are reconstructed from its table (case 5 is one of several that fit).
"""

from dataclasses import dataclass

from pippin._conformal.calibrate import score

OWN = 0.1


@dataclass(frozen=True)
class Case:
    """The probabilities above y, and the scores printed in the paper for y."""

    above: tuple[float, ...]
    expected: dict[str, float]

    def row(self) -> list[float]:
        """A whole distribution: the classes above y, y itself, and the rest spread below it."""
        rest = max(0.0, 1.0 - sum(self.above) - OWN)
        pieces = int(rest / (0.9 * OWN)) + 1
        return [*self.above, OWN, *[rest / pieces] * pieces]

    def computed(self) -> dict[str, float]:
        """The scores of y by this package."""
        return {name: float(score([self.row()], [len(self.above)], name)[0]) for name in self.expected}


CASES: tuple[Case, ...] = tuple(
    Case(above, {"ip": 0.90, "margin": margin, "pip": pip})
    for above, margin, pip in (
        ((0.12, 0.12), 0.02, 1.08),
        ((0.2,), 0.10, 1.10),
        ((0.3, 0.12), 0.20, 1.26),
        ((0.3, 0.2), 0.20, 1.30),
        ((0.3, 0.25, 0.2, 0.15), 0.20, 1.43),
        ((0.7, 0.2), 0.60, 1.70),
    )
)
