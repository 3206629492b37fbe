"""Evaluation of prediction sets that are computed in parts: the counts of the parts are added."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.coverage_by import Tally, tally
from pippin._conformal.evaluation import Evaluation, evaluate_predictor_counts
from pippin._conformal.mondrian import OVERLAPPING
from pippin._conformal.predictor import ConformalPredictor
from pippin._conformal.sets import PredictionSets
from pippin._distributed.calibration import merged_names, sampled
from pippin._engine import dispatch
from pippin._runtime.arrays import Codes
from pippin._runtime.errors import warn
from pippin._validation.labels import are_ids, as_numbered_groups
from pippin._validation.memberships import groups_of_combination
from pippin._validation.plausibility import TopClasses, implausibility, joined
from pippin._validation.rows import Rows


@dataclass(frozen=True, eq=False)
class EvaluationCounts:
    """Counts of some prediction sets, from which `evaluation` computes coverage, sizes and accuracy.

    Attributes:
        tally: number of sets, and of sets that contain the true class, by size and by class.
        groups: number of sets, and of sets that contain the true class, by name of the group.
        right: number of rows whose most probable class is the true class.
        tops: most probable classes of some of the rows of each part, for warnings about implausible rows.
    """

    tally: Tally
    groups: dict[str | int, Codes]
    right: int
    tops: tuple[TopClasses, ...]

    @property
    def n(self) -> int:
        """Number of prediction sets."""
        return int(self.tally.sizes[0].sum())

    def __add__(self, other: "EvaluationCounts") -> "EvaluationCounts":
        groups = dict(self.groups)
        for name, counts in other.groups.items():
            groups[name] = groups[name] + counts if name in groups else counts
        right, tops = self.right + other.right, self.tops + other.tops
        return EvaluationCounts(self.tally + other.tally, groups, right, tops)

    def without_ids(self) -> "EvaluationCounts":
        """Drop the counts by group, with a warning, if nearly every row has a group of its own, such as an id."""
        return replace(self, groups={}) if are_ids(self.groups, self.n) else self

    def evaluation(self, predictor: ConformalPredictor) -> Evaluation:
        """Compute the evaluation of all counted sets, equal to the result of `pippin.evaluate` on these sets.

        Like `pippin.evaluate`, warn if the rows are implausible.
        """
        if note := implausibility(joined(self.tops), predictor.classes):
            warn(note)
        groups = [(name, counts) for name, counts in self.groups.items()]
        if predictor.per in OVERLAPPING:  # these are names of combinations of groups
            groups = [(one, counts) for name, counts in groups for one in groups_of_combination(str(name))]
        names = merged_names([tuple(dict.fromkeys(name for name, _ in groups))]) if groups else None
        counts = self.tally
        if names is not None:
            by_name = {str(name): np.zeros(2, dtype=np.int64) for name in names}
            for name, group_counts in groups:
                by_name[str(name)] += group_counts
            counts = replace(counts, groups=np.stack(list(by_name.values()), axis=1))
        return replace(evaluate_predictor_counts(predictor, counts, names), accuracy=self.right / self.n)


def count_sets(sets: PredictionSets, rows: Rows, labels: Codes, groups: ArrayLike | None = None) -> EvaluationCounts:
    """Count the prediction sets of some rows, and those that contain the true class, by class, group and size."""
    covered = sets.contain_codes(labels)
    codes = np.zeros(len(sets), dtype=np.int64)
    names: tuple[str | int, ...] = ()
    if groups is not None:
        codes, names = as_numbered_groups(groups, len(sets))
    counts = tally(sets.sizes, covered, labels, codes, len(sets.classes), max(1, len(names)))
    by_group = {name: counts.groups[:, code] for code, name in enumerate(names)}
    total = replace(counts, groups=counts.groups.sum(axis=1, keepdims=True))
    right = round(dispatch.accuracy(rows, labels) * rows.n)
    return EvaluationCounts(total, by_group, right, (sampled(rows, labels),))
