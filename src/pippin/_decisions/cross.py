"""Cross-conformal decisions: several sharpeners (recalibration maps), each fitted without the rows it calibrates.

Sharpener f was fitted without the rows of fold f. A class y of a new object has the nonconformity score s_f(y) under
it: the smallest β above which the decision by v + β·m has a certificate v that holds if y is the true class. The set

    C = {y : p(y) > alpha},  p(y) = (1 + Σ_f #{i in fold f: s_i ≥ s_f(y)})/(n + 1)

contains the true class with the probability of cross-conformal prediction. The action has the best worst case over C,
and its certificate is this worst case. It holds whenever C contains the true class.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pippin._conformal.cross import CrossRule
from pippin._engine import dispatch
from pippin._runtime.arrays import Codes, Indices, Vector
from pippin._theory.level import quantile_rank
from pippin._theory.policy import Policy
from pippin._validation.rows import Rows

KIND = "sharpened cross decisions"  # in files


@dataclass(frozen=True, eq=False)
class CrossDecisionRule(CrossRule):
    """Cross-conformal rule of decisions: the best worst case over the classes with p-values above alpha."""

    takes = frozenset()

    @property
    def scores(self) -> Vector:
        """Calibration scores of all folds, sorted."""
        return np.sort(np.concatenate(self.fold_scores))

    @property
    def rank(self) -> int:
        """Rank k: a class is in the set if fewer than k calibration scores are below its own; n + 1 includes all."""
        return quantile_rank(self.n, self.alpha)

    def decide(self, every: tuple[Rows, ...], policy: Policy) -> tuple[Rows, Indices, Vector]:
        """Compute actions and certificates (guaranteed utilities) from the rows recalibrated by each sharpener.

        Also return the rows with the mean probabilities. Instead of an empty set, the outcomes with the largest p-value
        are used: with a larger set, a certificate holds at least as often.
        """
        below: Any = sum(
            np.stack([np.searchsorted(calibration, scores) for scores in _outcome_scores(rows, policy)], axis=1)
            for rows, calibration in zip(every, self.fold_scores, strict=True)
        )
        inside = below < np.maximum(self.rank, below.min(axis=1, keepdims=True) + 1)
        worst = np.full((every[0].n, len(policy.table)), np.inf)
        for c in range(policy.n_outcomes):
            worst[inside[:, c]] = np.minimum(worst[inside[:, c]], policy.table[:, c])
        codes: Any = worst.argmax(axis=1).astype(np.int32)
        mean: Any = sum(rows.array for rows in every) / np.float32(len(every))
        return replace(every[0], array=mean), codes, worst.max(axis=1)

    def content(self, scores: bool) -> dict[str, Any]:
        return super().content(scores) | {"kind": KIND}


def _outcome_scores(rows: Rows, policy: Policy) -> Iterator[Vector]:
    """Compute the nonconformity scores of all rows for one outcome (classes of equal utility) after the other."""
    for first in policy.grouped[policy.ends[:-1]].tolist():
        labels: Codes = np.full(rows.n, first, dtype=np.int64)
        yield dispatch.decision_scores(rows, labels, policy)
