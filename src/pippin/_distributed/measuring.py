"""What sets are judged by, counted in parts that are added up."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.coverage_by import Counts, Tally, tally
from pippin._conformal.metrics import Evaluation, judged
from pippin._conformal.protocol import ConformalPredictor
from pippin._conformal.sets import PredictionSets
from pippin._distributed.part import united
from pippin._engine import dispatch
from pippin._runtime.arrays import Codes
from pippin._validation.labels import are_ids, as_numbered_groups
from pippin._validation.rows import Rows


@dataclass(frozen=True, eq=False)
class Measured:
    """The counts of some sets, those of each group by its name, and how many rows the classifier has right."""

    tally: Tally
    groups: dict[str | int, Counts]
    right: int

    @property
    def n(self) -> int:
        """How many sets they are."""
        return int(self.tally.sizes[0].sum())

    def __add__(self, other: "Measured") -> "Measured":
        groups = dict(self.groups)
        for name, counts in other.groups.items():
            groups[name] = groups[name] + counts if name in groups else counts
        return Measured(self.tally + other.tally, groups, self.right + other.right)

    def without_ids(self) -> "Measured":
        """The same, but of all rows together where the groups of tables are ids, which is warned of."""
        return replace(self, groups={}) if are_ids(self.groups, self.n) else self

    def evaluation(self, predictor: ConformalPredictor) -> Evaluation:
        """What `pippin.evaluate` says of all sets at once."""
        names = united([tuple(self.groups)]) if self.groups else None
        counts = self.tally
        if names is not None:
            by_name = {str(name): np.zeros(2, dtype=np.int64) for name in names}
            for name, own in self.groups.items():
                by_name[str(name)] = by_name[str(name)] + own
            counts = replace(counts, groups=np.stack([by_name[str(name)] for name in names], axis=1))
        found = judged(counts, predictor.classes, names, predictor.alpha)
        return replace(found, n_calibration=predictor.n_calibration, accuracy=self.right / self.n)


def measure(sets: PredictionSets, rows: Rows, labels: Codes, groups: ArrayLike | None = None) -> Measured:
    """Counts the sets of some rows."""
    inside = sets.hold(labels)
    codes = np.zeros(len(sets), dtype=np.int64)
    names: tuple[str | int, ...] = ()
    if groups is not None:
        codes, names = as_numbered_groups(groups, len(sets))
    found = tally(sets.sizes, inside, labels, codes, len(sets.classes), max(1, len(names)))
    by_group = {name: found.groups[:, code] for code, name in enumerate(names)}
    one = replace(found, groups=found.groups.sum(axis=1, keepdims=True))
    return Measured(one, by_group, round(dispatch.accuracy(rows, labels) * rows.n))
