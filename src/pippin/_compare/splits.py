"""Random splits of labeled rows into calibration and test rows.

Every split has its own generator, seeded with the seed and the number of the split. So split i does not depend on the
method, the number of splits or the number of threads.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._compare.methods import Method
from pippin._engine import dispatch
from pippin._engine.draws import check_seed
from pippin._runtime.arguments import is_whole
from pippin._runtime.arrays import Classes, Codes, Flags, Indices, Vector, read_only
from pippin._runtime.errors import InputError, warn
from pippin._sharpening.sharpener import Sharpener
from pippin._theory.level import as_alpha, too_few, warn_of_level
from pippin._validation.labels import Labelled
from pippin._validation.memberships import Memberships, as_memberships, as_reported_groups
from pippin._validation.plausibility import find_implausibility
from pippin._validation.rows import Rows

SPLIT_LIMIT = 10_000_000  # largest number of splits
MOST_ROWS = 200_000  # number of rows in `Trial.sample`; the standard error of a share is then about 0.001

RowNumbers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Trial:
    """Labeled rows, ranked once for all random splits, and the settings of these splits.

    Attributes:
        rows: the probabilities as given.
        labels: the class index of each row.
        classes: the names of the classes.
        group: the group index of each row, or the index of its combination of groups, if groups overlap; 0 without
            groups.
        group_names: the names of the groups; None without groups.
        ranked: the probabilities of each row in descending order.
        ranks: the rank of the label of each row, from 0.
        n_calibration: number of calibration rows in each split.
        alpha: significance level (miscoverage).
        seed: seed of the splits.
        implausible: the warning that labels probably do not match the columns, or that rows are probably training rows;
            None if there is no such warning.
        members: matrix (combinations, groups) with 1 for the groups of each combination; None if groups do not overlap.
        sharpeners: fitted sharpeners (maps that recalibrate probabilities), by the number of the split.
    """

    rows: Rows
    labels: Codes
    classes: Classes
    group: Codes
    group_names: tuple[str | int, ...] | None
    ranked: Rows
    ranks: Codes
    n_calibration: int
    alpha: float
    seed: int
    implausible: str | None = None
    members: Vector | None = None
    sharpeners: dict[int, Sharpener] = field(default_factory=dict, init=False)

    def subset(self, chosen: RowNumbers, rows: Rows, n_calibration: int) -> "Trial":
        """Return a trial of the rows `chosen`, with `rows` as their probabilities."""
        labels = read_only(self.labels[chosen])
        ranked, ranks = dispatch.ranked_rows(rows, labels)
        changed: dict[str, Any] = {"rows": rows, "labels": labels, "group": self.group[chosen]}
        return replace(self, **changed, ranked=ranked, ranks=ranks, n_calibration=n_calibration)

    @cached_property
    def sample(self) -> "Trial":
        """Trial of a random sample of MOST_ROWS rows, for costly computations; this trial if it has no more rows."""
        if self.n <= MOST_ROWS:
            return self
        chosen = np.sort(np.random.default_rng(self.seed).choice(self.n, MOST_ROWS, replace=False))
        return self.subset(chosen, self.rows.take(chosen), round(self.n_calibration / self.n * MOST_ROWS))

    @property
    def n(self) -> int:
        return self.ranked.n

    @property
    def n_test(self) -> int:
        return self.n - self.n_calibration

    @property
    def n_classes(self) -> int:
        return self.ranked.n_classes

    @property
    def n_groups(self) -> int:
        """Number of groups; if groups overlap, number of their combinations, of which each row has one."""
        return len(self.group_names or (None,)) if self.members is None else len(self.members)

    @cached_property
    def combinations(self) -> Memberships:
        """Memberships of each group index, a combination of groups if groups overlap, for methods with such groups."""
        names = tuple(map(str, self.group_names or ()))
        return as_memberships(names, len(names)) if self.members is None else Memberships(names, self.members)

    def categories(self, method: Method) -> tuple[Codes, Indices]:
        """Return the Mondrian category of each row, and the table of categories by group and class.

        The table has one row if categories do not depend on groups, and one column if they do not depend on classes.
        """
        by_class, by_group = method.by_class, method.by_group
        n_groups, n_classes = self.n_groups if by_group else 1, self.n_classes if by_class else 1
        category = self.group * (n_classes * by_group) + self.labels * by_class
        return category, np.arange(n_groups * n_classes, dtype=np.int32).reshape(n_groups, n_classes)

    def fingerprint(self, methods: tuple[Method, ...]) -> str:
        """Return a text that identifies all inputs of a comparison of these methods, for checkpoints."""
        parts = [dispatch.checksum(self.ranked, self.ranks)]
        for method in methods:
            parts.append(f"{method.score.name}{method.score.parameters}")
            if not method.plain:
                parts += [str(method), dispatch.checksum(self.rows, self.labels)]
            if method.by_group:
                parts += [repr(self.group_names), dispatch.checksum(self.rows, self.group)]
                parts += [] if self.members is None else [repr(self.members.tolist())]
        return "\n".join([*parts, f"{self.alpha} {self.n_calibration} {self.seed} choice, singleton accuracy"])


def make_trial(
    data: Labelled, alpha: Any, calibration_fraction: float, seed: int, groups: ArrayLike | None = None
) -> Trial:
    """Validate the arguments, rank the rows, and return them as a trial (rows with the settings of random splits)."""
    n = data.rows.n
    fraction = as_alpha(calibration_fraction, "a calibration fraction", "0.45 leaves 55% of the rows to test")
    n_calibration = round(fraction * n)
    if not 0 < n_calibration < n:
        what = f"Expected enough rows for both calibration and test, got {n} with a calibration fraction of "
        raise InputError(f"{what}{calibration_fraction}", "pass more rows")
    check_seed(seed)
    if note := too_few(n_calibration, as_alpha(alpha)):
        warn(note)
    warn_of_level(as_alpha(alpha))
    none = np.zeros(n, dtype=np.int64), None, None
    group, names, members = none if groups is None else as_reported_groups(groups, n)
    ranked, ranks = dispatch.ranked_rows(data.rows, data.labels)
    if implausible := find_implausibility(data):
        warn(implausible)
    return Trial(*data, group, names, ranked, ranks, n_calibration, as_alpha(alpha), int(seed), implausible, members)


def check_splits(splits: Any) -> None:
    """Raise an InputError unless `splits` is a positive whole number of at most `SPLIT_LIMIT`."""
    if not is_whole(splits, 1):
        raise InputError(f"Expected at least one split, got {splits!r}")
    if splits > SPLIT_LIMIT:
        raise InputError(f"Expected at most {SPLIT_LIMIT:,} splits, got {splits:,}", "1,000 are plenty")


@dataclass(frozen=True, eq=False)
class Split:
    """A random split of the rows of a trial.

    Attributes:
        index: number of the split.
        calibration: mask of the calibration rows; the others are test rows.
        u: the random number u of each row, for randomized scores.
        state: state of the split's generator after choosing the calibration rows.
    """

    index: int
    calibration: Flags
    u: Vector
    state: Any

    @property
    def calibration_rows(self) -> RowNumbers:
        return np.flatnonzero(self.calibration)

    @property
    def test_rows(self) -> RowNumbers:
        return np.flatnonzero(~self.calibration)

    def generator(self) -> np.random.Generator:
        """Return the split's generator in the state after choosing the calibration rows."""
        generator = np.random.default_rng(0)
        generator.bit_generator.state = self.state
        return generator


def draw_split(trial: Trial, index: int) -> Split:
    """Draw split number `index`.

    Its generator chooses the calibration rows, then draws u for these, then for the test rows, in row order. These are
    the random numbers of `calibrate(…, seed=generator)` followed by `predict(…, seed=generator)`.
    """
    generator = np.random.default_rng([trial.seed, index])
    calibration, u = np.zeros(trial.n, dtype=bool), np.empty(trial.n)
    calibration[generator.choice(trial.n, trial.n_calibration, replace=False, shuffle=False)] = True
    split = Split(index, calibration, u, generator.bit_generator.state)
    u[split.calibration_rows] = generator.random(trial.n_calibration)
    u[split.test_rows] = generator.random(trial.n_test)
    return split
