"""Rows to be split again and again: ranked once, their labels given as ranks."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._compare.methods import Method
from pippin._engine import dispatch
from pippin._engine.draws import check_seed
from pippin._inputs.labels import Groups, Labelled, as_numbered_groups
from pippin._inputs.rows import Rows
from pippin._runtime.arrays import Classes, Codes, Flags, Indices, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._theory.level import as_alpha
from pippin._theory.scores import margin
from pippin._theory.shortage import warn_of_few

MOST_ROWS = 200_000  # looked at closely; a mean over so many is off by a thousandth


@dataclass(frozen=True, eq=False)
class Trial:
    """Labelled rows as given, the same rows ranked, their labels' ranks (from 0), and how they are to be split."""

    data: Labelled
    groups: Groups | None
    ranked: Rows
    ranks: Codes
    n_calibration: int
    alpha: float
    seed: int
    kept: dict[Any, Any] = field(default_factory=dict)  # what several comparisons of these rows share

    @cached_property
    def closer(self) -> "Trial":
        """These rows, or MOST_ROWS of them at random: enough for what more rows would not change."""
        if self.n <= MOST_ROWS:
            return self
        chosen = np.sort(np.random.default_rng(self.seed).choice(self.n, MOST_ROWS, replace=False))
        rows, labels, classes = self.data
        groups = None if self.groups is None else self.groups._replace(codes=read_only(self.groups.codes[chosen]))
        return Trial(
            Labelled(rows.take(chosen), read_only(labels[chosen]), classes),
            groups,
            self.ranked.take(chosen),
            read_only(self.ranks[chosen]),
            round(self.n_calibration / self.n * MOST_ROWS),
            self.alpha,
            self.seed,
        )

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
    def labels(self) -> Codes:
        return self.data.labels

    @property
    def classes(self) -> Classes:
        return self.data.classes

    @property
    def group_names(self) -> tuple[str | int, ...] | None:
        return None if self.groups is None else self.groups.names

    @property
    def n_groups(self) -> int:
        return 1 if self.groups is None else len(self.groups.names)

    @cached_property
    def group(self) -> Codes:
        """The group of each row by number; all in one, where there are none."""
        return np.zeros(self.n, dtype=np.int64) if self.groups is None else self.groups.codes

    @cached_property
    def order(self) -> Indices:
        """The class at every rank of every row."""
        return dispatch.row_orders(self.data.rows)

    @cached_property
    def margins(self) -> tuple[Vector, Vector]:
        """The margin scores of the first two ranks, (n, 2), and of the labels."""
        none = np.zeros(self.n)
        ranks = (read_only(np.full(self.n, rank)) for rank in (0, 1))
        first = np.column_stack([dispatch.label_scores(self.ranked, rank, margin(), none) for rank in ranks])
        return first, dispatch.label_scores(self.ranked, self.ranks, margin(), none)

    def alone(self, rows: NDArray[np.intp], b: float) -> Flags:
        """Where the margin's set at threshold b holds one class."""
        first, second = self.margins[0][rows].T
        alone: Flags = (first <= b) & ~(second <= b)
        return alone

    def cells(self, method: Method) -> tuple[Codes, Indices]:
        """The cell of every row's label, and the cell of every group and class; one row or column stands for all."""
        by_class, by_group = method.by_class, method.by_group
        n_groups, n_classes = self.n_groups if by_group else 1, self.n_classes if by_class else 1
        cell = self.group * (n_classes * by_group) + self.labels * by_class
        return cell, np.arange(n_groups * n_classes, dtype=np.int32).reshape(n_groups, n_classes)

    def fingerprint(self, methods: tuple[Method, ...]) -> str:
        """What the results of these methods depend on, and a checkpoint must agree with to be continued."""
        told = [dispatch.checksum(self.ranked, self.ranks)]
        for method in methods:
            told.append(f"{method.score.name}{method.score.parameters}")
            if not method.plain:
                told += [str(method), dispatch.checksum(self.data.rows, self.labels)]
            if method.by_group:
                told += [repr(self.group_names), dispatch.checksum(self.data.rows, self.group)]
        return "\n".join([*told, f"{self.alpha} {self.n_calibration} {self.seed}"])


def make_trial(
    data: Labelled, alpha: Any, calibration_fraction: float, seed: int, groups: ArrayLike | None = None
) -> Trial:
    """Ranks the rows once for all that follows."""
    n = data.rows.n
    if not 0 < calibration_fraction < 1:
        raise InputError(
            f"Expected a calibration fraction strictly between 0 and 1, got {calibration_fraction!r}",
            "0.45 leaves 55 % of the rows to test",
        )
    n_calibration = round(calibration_fraction * n)
    if not 0 < n_calibration < n:
        raise InputError(
            f"Expected enough rows for both calibration and test, got {n} with a calibration fraction of "
            f"{calibration_fraction}",
            "pass more rows",
        )
    check_seed(seed)
    warn_of_few(n_calibration, as_alpha(alpha))
    numbered = None if groups is None else as_numbered_groups(groups, n)
    ranked, ranks = dispatch.ranked_rows(data.rows, data.labels)
    return Trial(data, numbered, ranked, ranks, n_calibration, as_alpha(alpha), int(seed))
