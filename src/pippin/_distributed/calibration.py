"""Calibration in parts: each is scored where it is, and their merger is the ordinary predictor, to the last bit."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal import by_cell, marginal
from pippin._conformal.conditional import ConditionalPredictor
from pippin._conformal.grouping import Grouping
from pippin._conformal.kinds import Level, as_kinds, as_levels
from pippin._conformal.marginal import Predictor
from pippin._distributed.part import Part, compact, joined, positioned
from pippin._distributed.per_cell import Census, Counting, merged_cells
from pippin._distributed.selecting import Ask, in_one_cell, smallest_of_cells
from pippin._engine import dispatch
from pippin._engine.draws import draws, generator_of
from pippin._runtime.arrays import Classes, Seed
from pippin._runtime.errors import InputError
from pippin._theory.level import as_alpha, quantile_rank
from pippin._theory.scores import Score
from pippin._theory.shortage import warn_of_level
from pippin._theory.spelling import parse_score
from pippin._validation.index import same_index
from pippin._validation.labels import Groups, agree, as_numbered_groups, labels_of_part
from pippin._validation.rows import Rows, as_rows

MOST_SCORES = 1_000_000  # that a predictor keeps of a calibration in parts: its file has 20 MB then


@dataclass(frozen=True, eq=False)
class Gathered:
    """Parts that are few enough to be held together."""

    parts: tuple[Part, ...]

    def __add__(self, other: "Gathered") -> "Gathered":
        return Gathered(self.parts + other.parts)


class Calibration:
    """A calibration whose rows are in parts, on one machine or on many.

    Wherever a part is, `part` turns it into the scores of its true labels; `merged` makes the
    predictor from them, by questions whose answers are added up. It is the predictor that
    `pippin.calibrate` makes of all rows at once, to the last bit, however they are divided.

    Args:
        score: a score or its spelling.
        alpha: the share of errors allowed; with kinds one for all or {kind: alpha}.
        classes: the names of the columns, or a range where they have none.
        per: what the guarantee holds for, as in `pippin.calibrate`.
        unseen: what `predict` does with a group that was not seen: an "error", or "marginal".
        seed: for the randomised scores and for clusters; a row's u follows from it and from the row's position.
        most_scores: a predictor of more rows than that leaves the calibration scores out: then it has no other
            level and no p-values, but the same thresholds.

    Attributes:
        score (Score): the score.
        alpha (Level): the share of errors allowed.
        classes (Classes): the names of the columns, in their order.
        grouping: what there are thresholds for; None for one threshold.
        seed (numpy.random.Generator): what randomised scores draw from.
        most_scores (int): of more rows than that, the calibration scores are not kept.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> calibration = pippin.distributed.Calibration("pip", 0.1, classes=data.classes)
    >>> cuts = [slice(first, first + 100) for first in range(0, 2000, 100)]
    >>> parts = [calibration.part(data.probs[cut], data.labels[cut], first=cut.start) for cut in cuts]
    >>> predictor = calibration.merged(lambda question: sum(map(question, parts[1:]), question(parts[0])))
    >>> predictor.threshold == pippin.calibrate(data.probs[:2000], data.labels[:2000], "pip").threshold
    True
    """

    def __init__(
        self,
        score: Score | str = "repip",
        alpha: Level = 0.1,
        *,
        classes: Classes,
        per: Any = None,
        unseen: str = "error",
        seed: Seed = None,
        most_scores: int = MOST_SCORES,
    ) -> None:
        self.score, self.alpha, self.classes = parse_score(score), alpha, classes
        self.grouping = None if per is None and unseen == "error" else Grouping(per or "group", None, unseen)
        self.seed = np.random.default_rng() if seed is None else generator_of(seed)
        self.most_scores = most_scores
        positioned(self.seed, 0)
        kinds = None
        if self.grouping is not None:
            self.grouping._replace(groups=() if self.by_group else None).check()
            kinds = None if isinstance(self.grouping.per, str) else as_kinds(self.grouping.per, classes)
        for level in as_levels(alpha, kinds) or (as_alpha(alpha),):
            warn_of_level(level)

    @property
    def by_group(self) -> bool:
        """Whether a part must come with the groups of its rows."""
        return self.grouping is not None and "group" in self.grouping.name

    def part(
        self, probs: Any, labels: Any, *, groups: ArrayLike | None = None, first: int = 0, from_logits: bool = False
    ) -> Part:
        """What calibration keeps of some rows: the scores of their true labels, and what their cells follow from.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`. No rows at all are a part too.
            labels: the true classes, as indices or as names.
            groups: the group of each row, where the guarantee is per group.
            first: how many rows come before, in all parts.
            from_logits: whether `probs` are logits, of which a softmax is taken.
        """
        if not len(probs.array if isinstance(probs, Rows) else probs):
            return self._empty(first)
        rows = as_rows(probs, from_logits)
        same_index("probs", rows.index, labels=labels, groups=groups)
        agree(self.classes, rows)
        codes = labels_of_part(labels, rows.n, self.classes)
        if self.grouping is not None:
            self.grouping._replace(groups=groups).check()
        u = draws(self.score, rows.n, positioned(self.seed, first) if self.score.randomized else None)
        scores = dispatch.label_scores(rows, codes, self.score, u)
        if self.grouping is None:
            return Part(scores, first=first)
        known = as_numbered_groups(groups, rows.n) if self.by_group and groups is not None else None
        ranks = by_cell.ranks_from_1(rows, codes) if self.grouping.per == "rc3p" else None
        return Part(scores, compact(codes), known, ranks, first)

    def _empty(self, first: int) -> Part:
        none = np.empty(0, dtype=np.int64)
        if self.grouping is None:
            return Part(np.empty(0), first=first)
        ranks = none.astype(np.int32) if self.grouping.per == "rc3p" else None
        return Part(np.empty(0), compact(none), Groups(none, ()) if self.by_group else None, ranks, first)

    def merged(self, ask: Ask) -> Predictor | ConditionalPredictor:
        """The predictor of all parts.

        Args:
            ask: a function of a question. It calls the question with every part, as `part` made it, and returns the
                sum of the answers. Questions can be pickled, and their answers are small.
        """
        census: Census = ask(Counting(len(self.classes)))
        if census.n == 0:
            raise InputError("Expected at least one row of probabilities, got parts without any")
        if census.n <= self.most_scores:
            return self._of_all(joined(list(ask(gather).parts)))
        if self.grouping is None:
            level = as_alpha(self.alpha)
            k = quantile_rank(census.n, level)
            found = math.inf
            if k <= census.n:
                found = float(smallest_of_cells(ask, in_one_cell, np.array([[k]])).values[0, 0])
            return Predictor(self.score, level, marginal.warned(found, census.n, level), census.n, self.classes, None)
        return by_cell.warned(*merged_cells(ask, self, census))

    def _of_all(self, part: Part) -> Predictor | ConditionalPredictor:
        """The predictor of so few rows that their scores are at hand."""
        if self.grouping is None:
            return marginal.from_scores(part.scores, self.score, as_alpha(self.alpha), self.classes)
        generator = self.after(len(part.scores))
        return by_cell.warned(*by_cell.from_part(part, self.score, self.alpha, self.classes, self.grouping, generator))

    def after(self, n: int) -> np.random.Generator:
        """The generator once it has drawn u for all rows.

        Args:
            n: how many there are.
        """
        return positioned(self.seed, n if self.score.randomized else 0)


def gather(part: Part) -> Gathered:
    """A question: the part itself."""
    return Gathered((part,))
