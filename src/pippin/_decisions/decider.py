"""Decisions calibrated as decisions: each action comes with the utility that it has, as often as was asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pippin._conformal.answers import asked_rows
from pippin._conformal.cells import Cells, make_cells
from pippin._conformal.grouping import KIND, Grouping, GroupNames, celled, cells_content, group_codes, rare_cells
from pippin._conformal.kinds import Kinds, Level, as_level, warn_of_levels
from pippin._conformal.rules import need_scores
from pippin._conformal.saving import SavedWithScores, shared_content
from pippin._conformal.sets import PredictionSets
from pippin._decisions.results import Decision, Decisions
from pippin._decisions.utility import Utility
from pippin._engine import decisions, dispatch
from pippin._runtime.arrays import NATIVE, Classes, Codes, Vector, read_only
from pippin._runtime.errors import InputError
from pippin._runtime.warn import warn
from pippin._theory.policy import Policy
from pippin._theory.shortage import too_few
from pippin._validation.labels import as_labelled, check_names
from pippin._validation.rows import Rows, as_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PerDecision = Literal["class", "kind", "group", "class and group"]
PER_DECISION = ("class", KIND, "group", "class and group")
SET_BLOCK = 1 << 20  # memberships found at once


def calibrate_decisions(
    probs: Any,
    labels: ArrayLike,
    utility: Utility,
    alpha: Level = 0.1,
    *,
    classes: Classes | None = None,
    per: PerDecision | Mapping[Any, str] | None = None,
    groups: ArrayLike | None = None,
    unseen: Literal["error", "marginal"] = "error",
    from_logits: bool = False,
) -> "Decider":
    """A decider whose actions are worth at least their certificates with probability at least 1 − alpha.

    With the distinct utilities v_1 > … > v_L and m_l = max_a Σ_{y: U(a, y) ≥ v_l} p_y, the
    multiplier β picks the l that maximises v_l + β·m_l, its action, and the certificate ν = v_l.
    A labelled row's score is the smallest β from which on, for every larger β, U(action, y) ≥ ν;
    the k-th smallest score, k = ⌈(n + 1)(1 − alpha)⌉, is the β that decides: so
    P(U(action, Y) ≥ ν) ≥ 1 − alpha, whatever the probabilities are worth. Kiyani, Pappas, Roth,
    Hassani (2025), Decision theoretic foundations for conformal prediction.

    Args:
        probs: (n, K) probabilities; logits with `from_logits=True`.
        labels: the true classes, as indices or as names.
        utility: what each action is worth if each class is the true one.
        alpha: the share of broken certificates allowed; per kind, one for all or {kind: alpha}.
        classes: names of the K columns; a data frame brings its own.
        per: what the guarantee holds for, beyond all objects together: every true "class", every
            "kind" of the utility, or {class: kind}; every "group", every "class and group".
        groups: the group of each row, for a guarantee per group.
        unseen: what `decide` does with a group that is not among them: an "error", or the
            "marginal" β of all groups together.
        from_logits: whether `probs` are logits, of which a softmax is taken.

    >>> import pippin
    >>> data = pippin.load_example()
    >>> crops = ("maize", "common_wheat", "sugar_beet")
    >>> utility = pippin.decisions.Utility({"spray": {"weed": 1, "crop": -2}, "leave": {"weed": -1, "crop": 1},
    ...                           "ask": {"weed": 0.3, "crop": 0.3}},
    ...                          kinds={name: "crop" if name in crops else "weed" for name in data.classes})
    >>> decider = pippin.decisions.calibrate(data.probs[:2000], data.labels[:2000], utility, 0.02, classes=data.classes)
    >>> decider.decide(data.probs[2000:])
    Decisions(2,986 objects: spray 79 %, leave 15 %, ask 6 %)
    """
    warn_of_levels(alpha)
    data = as_labelled(probs, labels, classes, from_logits)
    if not isinstance(utility, Utility):
        raise InputError(f"Expected a Utility, got {type(utility).__name__}", "make one with pippin.decisions.Utility")
    policy = utility.policy(data.classes)
    grouping = _grouping(per, groups, unseen, utility, data.classes)
    scores = decisions.decision_scores(data.rows, data.labels, policy)
    if grouping is None:
        one = np.zeros((1, data.rows.n_classes), dtype=np.int64)
        cells = make_cells(scores, np.zeros(data.rows.n, dtype=np.int64), one)
        blank = Decider(utility, None, 0.5, np.empty(0), data.rows.n, data.classes, None, cells)
    else:
        cells, names, kinds = celled(scores, data, grouping)
        blank = Decider(utility, grouping.name, 0.5, np.empty(0), data.rows.n, data.classes, names, cells, kinds)
    return blank._at(alpha)


def _grouping(per: Any, groups: ArrayLike | None, unseen: str, utility: Utility, classes: Classes) -> Grouping | None:
    """What certificates are kept per; the kinds are the utility's own, if it is not said."""
    if per is None and groups is None and unseen == "error":
        return None
    if isinstance(per, str) and per not in PER_DECISION:
        raise InputError(
            f"Expected per to be one of {', '.join(map(repr, PER_DECISION))}, or {{class: kind}}, got {per!r}"
        )
    if per == KIND:
        per = dict(zip(classes, utility.kind_of(classes), strict=True))
    grouping = Grouping("group" if per is None else per, groups, unseen)
    grouping.check()
    return grouping


@dataclass(frozen=True, eq=False, repr=False)
class Decider(SavedWithScores):
    """A utility and the multipliers β that calibration gave: what turns rows of probabilities into actions.

    Where a group's β are all the same, it picks the action. Where they differ by class, the action is the best in the
    worst case over the classes whose score is within their own β: as true classes these would keep their
    certificates, so each class has its guarantee.

    An infinite β, by too few rows, picks the action whose worst utility is best: it is always kept.

    Attributes:
        utility: what each action is worth if each class is the true one.
        per: what there is a β for: "class", "kind", "group" or "class and group"; None, if there is one for
            all.
        alpha: the share of certificates that may be broken; the largest, where kinds have levels of their own.
        betas: betas[g, k] is that of an object in group g whose true class is k; without groups there is one
            row.
        n_calibration: how many rows calibrated it.
        classes: the names of the columns, in their order.
        groups: the names of the groups, where there are some; None among them stands for every group that was
            not seen.
        cells: the calibration scores, cell by cell.
        kinds: the kinds of the classes, if they have some.
        levels: the kinds' own alphas, if they have some.
    """

    utility: Utility
    per: str | None
    alpha: float
    betas: Vector
    n_calibration: int
    classes: Classes
    groups: GroupNames | None
    cells: Cells
    kinds: Kinds | None = None
    levels: tuple[float, ...] | None = None

    @property
    def guarantee(self) -> float:
        """The share of certificates that is proven to be kept: 1 − alpha."""
        return 1 - self.alpha

    @property
    def takes(self) -> frozenset[str]:
        """What `decide` and `predict` may be told beside the rows."""
        return frozenset() if self.groups is None else frozenset({"groups"})

    @property
    def beta(self) -> float:
        """The multiplier, where all objects have the same."""
        if not (self.betas == self.betas[0, 0]).all():
            raise InputError(f"Expected a decider with one β for all, got {self!r}", "look at its betas")
        return float(self.betas[0, 0])

    def at(self, alpha: Level) -> "Decider":
        """Another level from the same calibration.

        Args:
            alpha: the share of broken certificates allowed; per kind, one for all or {kind: alpha}.
        """
        need_scores(self.cells, f"has only alpha={self.alpha}")
        return self._at(alpha)

    def decide(self, probs: Any, *, groups: ArrayLike | None = None, from_logits: bool = False) -> Decisions:
        """The action of every row, and its certificate.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            groups: the group of each row, where the guarantee is per group.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> utility = pippin.decisions.Utility([[1, -2], [-1, 1], [0.3, 0.3]], actions=["spray", "leave", "ask"])
        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9]]
        >>> decider = pippin.decisions.calibrate(probs, [0, 0, 1, 1, 1], utility, alpha=0.3)
        >>> decider.decide([[0.95, 0.05], [0.55, 0.45]]).actions
        array(['spray', 'ask'], dtype='<U5')
        """
        rows = asked_rows(self.classes, probs, from_logits, groups=groups)
        found = self._decide(rows, self.group_codes(groups, rows.n))
        return Decisions(*found, self.utility.actions, self.classes, index=rows.index)

    def decide_one(self, row: Any, *, group: str | int | None = None) -> Decision:
        """One object's action and certificate, with the least delay.

        Args:
            row: its K probabilities, not logits.
            group: the object's group, where the guarantee is per group.
        """
        if self._one is None or group is not None:
            if self.groups is not None and group is None:
                raise InputError(f"This decider has a β per {self.per}", "pass group=, that of the object")
            check_names(self.classes, row)
            return self.decide(as_array(row)[None], groups=None if group is None else [group])[0]
        if type(row) is not np.ndarray or row.dtype not in NATIVE or not row.flags.carray:
            row = self._as_row(row)
        n_classes, names, find = self._one
        if row.shape != (n_classes,):
            raise InputError(f"Expected one row of {n_classes} probabilities, got shape {row.shape}")
        action, certificate = find(row)
        return Decision(names[action], certificate)

    def predict(
        self, probs: Any, *, groups: ArrayLike | None = None, nonempty: bool = False, from_logits: bool = False
    ) -> PredictionSets:
        """The classes for which each action has at least its certificate, most probable first.

        They hold the true class just when the certificate is kept, so they cover 1 − alpha.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`.
            groups: the group of each row, where the guarantee is per group.
            nonempty: they never are empty, so it changes nothing.
            from_logits: whether `probs` are logits, of which a softmax is taken.
        """
        rows = asked_rows(self.classes, probs, from_logits, groups=groups)
        actions, certificates = self._decide(rows, self.group_codes(groups, rows.n))
        sizes, members = np.empty(rows.n, dtype=np.int64), []
        utilities, step = self.utility.of(self.classes), max(1, SET_BLOCK // rows.n_classes)
        for start in range(0, rows.n, step):
            part = slice(start, min(start + step, rows.n))
            order = dispatch.row_orders(Rows(rows.block(part.start, part.stop), checked=True))
            inside = utilities[actions[part, None], order] >= certificates[part, None]
            sizes[part] = np.count_nonzero(inside, axis=1)
            members.append(order[inside])
        return PredictionSets(sizes, np.concatenate(members), self.classes, rows.index)

    def group_codes(self, groups: ArrayLike | None, n: int) -> Codes | None:
        """The row of `betas` that each object uses; None without groups.

        Args:
            groups: the group of each row, whole numbers or text.
            n: how many rows there are.
        """
        return group_codes(self.groups, self.per or "decision", groups, n)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The share of calibration certificates that are kept, against the multiplier β; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        from pippin._plotting.decisions import plot_decider

        return plot_decider(self, ax)

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        whom = {None: "", KIND: "for every kind of classes, "}.get(self.per, f"for every {self.per}, ")
        if np.isinf(self.betas).all():
            return (
                f"Decisions between {', '.join(self.utility.actions)}, from {self.n_calibration:,} rows: too few to "
                f"promise more than the worst case, so the action is always {self.utility.actions[self._policy.safe]}."
            )
        share = f"{100 * self.guarantee:g} %"
        if self.levels is not None and self.kinds is not None:
            each = zip(self.kinds.names, self.levels, strict=True)
            whom, share = "", ", ".join(f"{100 * (1 - own):g} % (if the class is a {name})" for name, own in each)
        return (
            f"Decisions between {', '.join(self.utility.actions)}, from {self.n_calibration:,} rows: {whom}each action "
            f"is worth at least its certificate {share} of the time."
        )

    def _content(self, scores: bool) -> dict[str, Any]:
        return {
            "kind": "decisions",
            "utility": self.utility.content(),
            "per": self.per,
            **shared_content(self),
            "betas": self.betas.tolist(),
            "kinds": None if self.kinds is None else self.kinds.by_class(),
            "levels": None if self.levels is None else list(self.levels),
            **cells_content(self, scores),
        }

    def __repr__(self) -> str:
        per = "" if self.per is None else f" per {self.per}"
        return self._shown(f"{', '.join(self.utility.actions)}{per}", self._examples)

    def _at(self, alpha: Level) -> "Decider":
        level, levels = as_level(alpha, self.kinds)
        betas = read_only(self.cells.thresholds(levels or level)[self.cells.of])
        made = replace(self, alpha=level, betas=betas, levels=levels)
        if note := _rare(made):
            warn(note)
        return made

    def _decide(self, rows: Rows, group: Codes | None) -> tuple[Any, Vector]:
        return decisions.decide(rows, self._policy, self._limits, group)

    def _as_row(self, row: Any) -> NDArray[Any]:
        check_names(self.classes, row)
        return np.require(as_array(row), np.float64, ["C", "A"])

    @cached_property
    def _policy(self) -> Policy:
        return self.utility.policy(self.classes)

    @cached_property
    def _limits(self) -> Vector:
        """One β for each group, or one for each group and outcome: the largest of its classes."""
        if (self.betas == self.betas[:, :1]).all():
            return self.betas[:, :1]
        limits = np.full((len(self.betas), self._policy.n_outcomes), -np.inf)
        np.maximum.at(limits.T, self._policy.outcome, self.betas.T)
        return limits

    @cached_property
    def _one(self) -> "tuple[int, tuple[str, ...], decisions.OneDecision] | None":
        """What `decide_one` would otherwise look up for every row; None where there are several β."""
        if self._limits.size > 1:
            return None
        return len(self.classes), self.utility.actions, decisions.one_decision(self._policy, float(self._limits[0, 0]))


def _rare(decider: Decider) -> str | None:
    """What is lacking where β is infinite, and what that means."""
    if decider.cells.scores is None:
        return None
    if decider.per is None:
        note = too_few(decider.n_calibration, decider.alpha)
        end = "Until then the action is always that of the best worst case."
        return None if note is None else f"{note.partition(' The threshold')[0]} {end}"
    safe = f"the action is {decider.utility.actions[decider._policy.safe]!r} unless its worst case can be left out"
    of_kinds = f"Such classes are never ruled out, so {safe}"
    return rare_cells(decider, "multipliers", of_kinds, f"There {safe}: collect more")
