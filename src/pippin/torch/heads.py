"""Last layers that compute prediction sets or p-values from logits on their device, and their base classes."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from pippin._conformal.exportable import (
    Exportable,
    ExportableSharpener,
    ScoredExportable,
    exportable_p_values,
    exportable_sets,
    models_of,
)
from pippin._conformal.predictor import ConformalPredictor
from pippin._engine.protocol import SortedScores
from pippin._runtime.arguments import checked, is_whole
from pippin._runtime.errors import InputError
from pippin._sharpening.features import FLOOR, SHIFT
from pippin._theory.formula import OWN_U, PENALTY_U
from pippin.torch.ranking import SCORE_SCHEMA, block_probabilities, operation, prediction_sets, row_blocks, softmax
from pippin.torch.scores import TorchScore, scores_by_rank

DEFAULT_SIZE = 64  # default of `max_size`, the largest number of classes that a head lists per set
N_WAVES = 512  # approximate number of values per row that a sharpener computes in addition to those per class
NO_GROUPS = "Expected no groups, since all objects have the same thresholds, got some", "leave them out"


class TorchSets(NamedTuple):
    """Prediction sets as tensors on the device of the logits.

    Attributes:
        sizes: number of classes in each set, shape (…).
        classes: indices of the classes in each set, most probable first, padded with −1; shape (…, max_size).
        mask: True for classes in the set, shape (…, K); None unless `forward` is called with `mask=True`.
    """

    sizes: torch.Tensor
    classes: torch.Tensor
    mask: torch.Tensor | None


@checked
def probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Compute the softmax over the last axis, without gradients.

    These are the probabilities that `calibrate` and the heads compute from logits on the same device, to the last bit.

    Args:
        logits: logits of any float type, shape (…, K).

    Returns:
        Probabilities of shape (…, K), in float64 for float64 logits and in float32 otherwise.

    >>> import pippin.torch, torch
    >>> pippin.torch.probabilities(torch.tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.5000]])
    """
    if not logits.ndim:
        raise InputError("Expected logits of shape (..., K), got a single number", "pass one row of logits per object")
    return softmax(logits.detach().reshape(-1, logits.shape[-1])).reshape(logits.shape)


def _group_rows(group: torch.Tensor, known: int, others: bool) -> torch.Tensor:
    """Convert group indices to row numbers in the table of thresholds.

    There are `known` groups. Other indices become the number of an additional last row if `others` is True; otherwise
    they raise an InputError.
    """
    outside = (group < 0) | (group >= known)
    if not others and bool(outside.any()):
        what = f"Expected groups by number, from 0 to {known - 1}, got {int(group[outside][0])}"
        raise InputError(what, "pass the numbers that group_codes returns, or calibrate with unseen='marginal'")
    return torch.where(outside, known, group)


group_rows = operation("group_rows", _group_rows, lambda group, *_: torch.empty_like(group))


def _sharpened(x: torch.Tensor, features: torch.Tensor | None, *chain: Any) -> torch.Tensor:
    """Compute sharpened probabilities (n, K) in float32; `chain` has the tensors of `_chain` in its order.

    With a stack of M models, x has the shape (n, M·K), and the models are pooled first.
    Intermediate results are in float64, which neither autocast nor TensorFloat-32 rounds.
    """
    pool, a, weights, axes, shift, feature_axes, feature_shift, waves, phases, rotation, centre, w, b = chain
    out = _sharpened_like(x, features, pool)
    n, n_classes = out.shape
    for rows in row_blocks(torch.arange(n, device=x.device), (3 + len(a)) * n_classes + x.shape[1] + 2 * N_WAVES):
        p = x[rows].float()
        if pool is not None:
            logs = p.clamp(min=float(FLOOR)).double().log().reshape(len(rows), -1, n_classes)
            p = torch.softmax((logs * pool[:, None]).sum(dim=1), dim=1).float()
        z, log_shifted = p.clamp(min=float(FLOOR)).double().log(), (p + float(SHIFT)).double().log()
        z, log_shifted = (part - part.mean(dim=1, keepdim=True) for part in (z, log_shifted))
        u = z[:, None] * a[:, :1] + log_shifted[:, None] * a[:, 1:]
        if axes is not None:
            psi = z @ axes + shift
            if feature_axes is not None and features is not None:
                psi = torch.cat([psi, features[rows].float().double() @ feature_axes + feature_shift], dim=1)
            psi = torch.cat([psi, torch.cos(psi @ waves + phases)], dim=1)
            phi = psi if rotation is None else psi @ rotation + centre
            u[:, len(a) - b.numel() // n_classes :] += (phi @ w + b).reshape(len(rows), -1, n_classes)
        out[rows] = (torch.softmax(u, dim=2) * weights[:, None]).sum(dim=1).float()
    return out


def _sharpened_like(x: torch.Tensor, features: torch.Tensor | None, pool: torch.Tensor | None, *_: Any) -> torch.Tensor:
    """Return an uninitialized tensor of the shape and type of the result of `_sharpened`."""
    n, columns = x.shape
    return x.new_empty((n, columns if pool is None else columns // len(pool)), dtype=torch.float32)


sharpened_rows = operation(
    "sharpened",
    _sharpened,
    _sharpened_like,
    "(Tensor x, Tensor? features, Tensor? pool, Tensor a, Tensor weights, Tensor? axes, Tensor? shift, "
    "Tensor? feature_axes, Tensor? feature_shift, Tensor? waves, Tensor? phases, Tensor? rotation, Tensor? centre, "
    "Tensor? w, Tensor? b)"
    " -> Tensor",
)
MAP = ("axes", "shift", "feature_axes", "feature_shift", "waves", "phases")
CHAIN = ("pool", "a", "weights", *MAP, "rotation", "centre", "w", "b")


def _chain(sharpener: ExportableSharpener) -> dict[str, Any]:
    """Return the arrays of a sharpener (recalibration map) by name; None for arrays that it does not have."""
    feature_map = sharpener.feature_map
    chain: dict[str, Any] = dict.fromkeys(CHAIN)
    chain |= {"pool": sharpener.pool, "a": sharpener.a, "weights": sharpener.weights}
    if feature_map is not None:
        chain |= {name: getattr(feature_map, name) for name in MAP}
        ws, bs = zip(*sharpener.members, strict=True)
        chain |= {"w": np.concatenate(ws, axis=1), "b": np.concatenate(bs)}
    if sharpener.rotation is not None:
        chain["rotation"], chain["centre"] = sharpener.rotation
    return chain


class Head(torch.nn.Module):
    """Base class of heads (last layers): stores classes, groups, sharpener and numbers, and reshapes input to rows.

    Buffers store float64 numbers as int64 bits, so that `half()` and `to(dtype)` do not round them.
    """

    def __init__(self, given: Exportable, from_probs: bool) -> None:
        super().__init__()
        self.classes, self.from_probs, self._groups = given.source.classes, from_probs, given.groups
        self.sharpened, self.n_features, self._n_models = given.sharpener is not None, 0, models_of(given)
        if given.sharpener is not None:
            self.n_features = given.sharpener.n_features
            for name, values in _chain(given.sharpener).items():
                if values is not None:  # torch.export does not accept a buffer after one that is None
                    self._keep(f"sharpener_{name}_bits", values)

    def group_codes(self, groups: ArrayLike) -> torch.Tensor:
        """Return the indices of groups given by name, for `forward`.

        Args:
            groups: name of the group of each object.

        Returns:
            Index of each object's group, as int64.

        Raises:
            InputError: a group is unknown, or thresholds do not depend on groups.
        """
        if self._groups is None:
            raise InputError(*NO_GROUPS)
        return torch.from_numpy(self._groups.codes(groups, len(np.atleast_1d(np.asarray(groups)))))

    def _keep(self, name: str, values: Any) -> None:
        """Store float64 numbers as a buffer of their int64 bits; None is stored as None."""
        bits = None if values is None else torch.from_numpy(np.array(values, dtype=np.float64).view(np.int64))
        self.register_buffer(name, bits)

    def _numbers(self, name: str) -> torch.Tensor:
        """Return the float64 numbers that `_keep` stored as a buffer."""
        bits: torch.Tensor = getattr(self, name)
        return bits.view(torch.float64)

    def _rows(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits or probabilities of shape (…, K) as contiguous rows (n, K), without gradients.

        With a stack of M models, x has the shape (…, M·K), and each object has M consecutive rows.
        """
        n_classes = len(self.classes)
        if x.ndim == 0 or x.shape[-1] != n_classes * self._n_models:
            each = f" of each of {self._n_models} models" if self._n_models > 1 else ""
            what = f"Expected {n_classes} classes{each} in the last axis, got shape {tuple(x.shape)}"
            raise InputError(what, "pass the outputs of the classifier that was calibrated")
        return x.detach().reshape(-1, n_classes).contiguous()

    def _scored_rows(self, x: torch.Tensor, features: torch.Tensor | None) -> tuple[torch.Tensor, bool]:
        """Return x as rows (n, K), and True if they are logits; with a sharpener, the rows are sharpened probabilities.

        Raises:
            InputError: features are missing, not expected, or of another shape.
        """
        flat = self._rows(x)
        if self.n_features or features is not None:
            shape, got = (*x.shape[:-1], self.n_features), None if features is None else tuple(features.shape)
            if not self.n_features:
                raise InputError(
                    f"Expected no features, since the sharpener has none, got shape {got}", "leave them out"
                )
            if got != shape:
                what = f"Expected the features of the sharpener, of shape {shape}, got {got or 'none'}"
                raise InputError(what, "pass features=, one row per object")
        if not self.sharpened:
            return flat, not self.from_probs
        rows = None if features is None else features.detach().to(x.device).reshape(-1, self.n_features)
        chain = []
        for name in CHAIN:
            bits: torch.Tensor | None = getattr(self, f"sharpener_{name}_bits", None)
            chain.append(None if bits is None else bits.view(torch.float64))
        probs = flat if self.from_probs else probabilities(flat)
        return sharpened_rows(probs.reshape(-1, x.shape[-1]), rows, *chain), False

    def _group_rows(self, group: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor | None:
        """Return each object's row number in the table of thresholds; None if thresholds do not depend on groups.

        Raises: InputError: groups are missing, not expected, of another shape, or unknown.
        """
        if self._groups is None:
            if group is not None:
                raise InputError(*NO_GROUPS)
            return None
        if group is None or group.dtype not in (torch.int64, torch.int32) or group.shape != x.shape[:-1]:
            got = "none" if group is None else f"{group.dtype} of shape {tuple(group.shape)}"
            what = f"Expected the group of each object by number, int64 of shape {tuple(x.shape[:-1])}, got {got}"
            raise InputError(what, "pass group=, the numbers that group_codes returns for the names")
        flat = group.to(x.device, torch.int64).reshape(-1)
        return group_rows(flat, len(self._groups.names), self._groups.other is not None)


class ScoreHead(Head):
    """Base class of heads that use a nonconformity score.

    The buffers `table_bits` and `number_bits` store the coefficients of the score formula (`pippin._theory.formula`) as
    the bits of float64 numbers: a table with one row per rank, and three numbers for all ranks: the
    constant, the factor of the second largest probability in the score of the best class, and SOCOP's μ.
    """

    linear: bool
    randomized: bool

    def __init__(self, given: ScoredExportable, from_probs: bool) -> None:
        super().__init__(given, from_probs)
        self._keep("table_bits", given.c.table)
        self._keep("number_bits", [given.c.constant, given.c.second, given.c.price])
        self.linear, self.randomized = bool(np.isnan(given.c.price)), given.source.score.randomized

    def _score(self, u: torch.Tensor | None, flat: torch.Tensor) -> TorchScore:
        """Return the score as tensors, with one random number u per row; if u is None, a randomized score draws it."""
        per_row = uniform("u", u, self.randomized, flat)
        return TorchScore(self._numbers("table_bits"), self._numbers("number_bits"), per_row, self.linear)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        table, numbers = self._numbers("table_bits"), self._numbers("number_bits")
        if not table.is_meta:
            self.linear, self.randomized = bool(numbers[2].isnan()), bool(table[:, [OWN_U, PENALTY_U]].any())


def uniform(name: str, given: torch.Tensor | None, needed: bool, flat: torch.Tensor) -> torch.Tensor:
    """Return one random number per row: those of `given`, or new ones if `needed`, else an empty tensor."""
    if given is None:
        return torch.rand(len(flat) if needed else 0, dtype=torch.float64, device=flat.device)
    if given.numel() != len(flat):
        what = f"Expected {len(flat)} numbers as {name}, one per object, got shape {tuple(given.shape)}"
        raise InputError(what, "pass one for each object, in their order")
    return given.to(device=flat.device, dtype=torch.float64).reshape(-1).contiguous()


class ConformalHead(ScoreHead):
    """Last layer that computes prediction sets from logits, like `predictor.predict`.

    `max_size` limits the number of classes that are listed per set, but not sizes and masks. Equal probabilities are
    ranked by class index. A row with NaN has an empty set. It is not checked that probabilities sum to 1.

    On the CPU the sets are equal to those of `predictor.predict`, for the same float32 or float64 probabilities (for
    logits, those of `pippin.torch.probabilities`). On a GPU, and with a sharpener, a set may differ if a score is
    within rounding of the threshold.

    Thresholds may differ by class, kind (superclass), cluster or group. With groups, `forward` takes the index of each
    object's group, which `group_codes` returns for names. Buffers store float64 numbers as int64 bits, so that `half()`
    and `to(dtype)` do not round them.

    Args:
        predictor: result of `calibrate` or of `pippin.load`.
        from_probs: whether `forward` takes probabilities instead of logits.
        max_size: largest number of classes listed per set; by default 64, or the number of classes if smaller.

    Attributes:
        classes (Classes): the names of the columns, in their order.
        from_probs (bool): whether `forward` takes probabilities instead of logits.
        max_size (int): largest number of classes listed per set.
        sharpened (bool): whether the probabilities are sharpened (recalibrated) first.
        n_features (int): number of features that `forward` takes for the sharpener.
        linear (bool): whether the score is linear in the probabilities.
        randomized (bool): whether the score is randomized.

    >>> import pippin.torch, torch
    >>> data = pippin.load_example()
    >>> head = pippin.torch.ConformalHead(pippin.calibrate(data.probs, data.labels, "pip"), from_probs=True, max_size=3)
    >>> sets = head(torch.tensor(data.probs[:2]))
    >>> sets.sizes, sets.classes
    (tensor([1, 1]), tensor([[ 1, -1, -1],
            [ 1, -1, -1]]))
    """

    rank_limits: torch.Tensor | None

    def __init__(self, predictor: ConformalPredictor, *, from_probs: bool = False, max_size: int | None = None) -> None:
        given = exportable_sets(predictor)
        super().__init__(given, from_probs)
        n_classes = len(predictor.classes)
        self.max_size = min(n_classes, DEFAULT_SIZE) if max_size is None else max_size
        if not is_whole(self.max_size, 1, n_classes):
            raise InputError(f"Expected max_size from 1 to {n_classes}, the number of classes, got {max_size}")
        self._keep("limit_bits", given.thresholds)
        self.register_buffer("rank_limits", None if given.ranks is None else torch.from_numpy(given.ranks.astype(int)))

    @property
    def threshold(self) -> float:
        """Largest threshold; classes with a larger score are in no set."""
        return float(self._numbers("limit_bits").max())

    def forward(
        self,
        x: torch.Tensor,
        u: torch.Tensor | None = None,
        mask: bool = False,
        group: torch.Tensor | None = None,
        features: torch.Tensor | None = None,
    ) -> TorchSets:
        """Compute prediction sets of logits (…, K), or of probabilities if the head was made with `from_probs=True`.

        Args:
            x: logits of any float type; the softmax of half floats is computed in float32.
            u: for a randomized score, one number in (0, 1) per object; random by default.
            mask: whether membership is also returned as a mask.
            group: index of each object's group, if thresholds are per group.
            features: features of each object for the sharpener (recalibration map), shape (…, n_features).

        Returns:
            Sizes, classes and mask of the sets.
        """
        (flat, logits), shape = self._scored_rows(x, features), x.shape[:-1]
        limits = self._numbers("limit_bits"), self.rank_limits, self._group_rows(group, x)
        options = logits, self.max_size, mask
        sizes, members, inside = prediction_sets(flat, *self._score(u, flat), *limits, *options)
        members = members.reshape(*shape, self.max_size)
        return TorchSets(sizes.reshape(shape), members, inside.reshape(*shape, -1) if mask else None)

    def extra_repr(self) -> str:
        which = "threshold" if self._numbers("limit_bits").numel() == 1 else "largest threshold"
        return f"{len(self.classes)} classes, {which}={self.threshold:.6g}, from_probs={self.from_probs}"


def _p_values(x: torch.Tensor, *others: Any) -> torch.Tensor:
    """Compute the p-values of all classes, (n, K) in float64; NaN for rows with NaN.

    `others` are the fields of a TorchScore, the four results of `_sorted_scores`, the random numbers v (empty if
    p-values are not smoothed), the group indices or None, and True if x are logits.
    """
    n, n_classes = x.shape
    p = x.new_empty((n, n_classes), dtype=torch.float64)
    formula, (values, keys, offsets, lookup), (v, group, logits) = TorchScore(*others[:4]), others[4:8], others[8:]
    for rows in row_blocks(torch.arange(n, device=x.device), n_classes):
        ranked, order = block_probabilities(x, rows, logits).sort(dim=1, descending=True, stable=True)
        scores = scores_by_rank(ranked, formula.take(rows))
        category = lookup[:1].expand(len(rows), -1) if group is None else lookup[group[rows]]
        category = category if category.shape[1] == 1 else category.gather(1, order)
        if len(offsets) > 2:
            scores = _search_key(values, scores, category)
        begin, stop = offsets[category], offsets[category + 1]
        low = torch.searchsorted(keys, scores)
        if len(v):
            high = torch.searchsorted(keys, scores, right=True)
            block = ((stop - high) + v[rows, None] * (1 + (high - low))) / (stop - begin + 1)
        else:
            block = (1 + (stop - low)) / (stop - begin + 1).double()
        block = block.masked_fill(ranked[:, :1].isnan(), torch.nan)
        p[rows] = torch.empty_like(block).scatter_(1, order, block)
    return p


p_values = operation(
    "p_values",
    _p_values,
    lambda x, *_: x.new_empty(x.shape, dtype=torch.float64),
    f"({SCORE_SCHEMA}, Tensor values, Tensor keys, Tensor offsets, Tensor of, Tensor v, Tensor? group,"
    " bool logits) -> Tensor",
)


def _search_key(values: torch.Tensor, scores: torch.Tensor, category: torch.Tensor) -> torch.Tensor:
    """Return integers that increase with the category, and within a category with the score.

    They are odd for scores that are among the distinct `values`, and even for scores between two of these.
    """
    place = torch.searchsorted(values, scores) + torch.searchsorted(values, scores, right=True)
    return place + category * (2 * len(values) + 1)


def _sorted_scores(held: SortedScores) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return calibration scores for binary search: distinct scores, search keys, offsets of categories, and `lookup`.

    The keys of category c begin at its offset. With a single category they are the scores themselves, otherwise the
    integers of `_search_key`. `lookup[g, k]` is the category of class k in group g; it has one column if categories do
    not depend on the class.
    """
    scores, offsets, lookup = (torch.from_numpy(np.array(part)) for part in (held.scores, held.offsets, held.lookup))
    lookup = lookup[:, :1] if bool((lookup == lookup[:, :1]).all()) else lookup
    if len(offsets) == 2:
        return scores[:0], scores, offsets, lookup.long()
    values = torch.unique(scores)
    category = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    return values, _search_key(values, scores, category), offsets.long(), lookup.long()


class PValueHead(ScoreHead):
    """Last layer that computes the p-value of every class from logits, like `predictor.p_values`.

    A class with score s has p = (1 + #{calibration scores >= s})/(n + 1), so the set at any level α is {classes with
    p > α}. For smoothed p-values, scores equal to s count with a random weight v. A row with NaN has p-values NaN. It
    is not checked that probabilities sum to 1.

    On the CPU the p-values are equal to those of `predictor.p_values`, for the same float32 or float64 probabilities
    (for logits, those of `pippin.torch.probabilities`). On a GPU, and with a sharpener, a p-value may differ if a score
    is within rounding of a calibration score.

    The calibration scores are buffers, so `load_state_dict` needs a head with the same number of scores. Buffers store
    float64 numbers as int64 bits, so that `half()` and `to(dtype)` do not round them.

    Args:
        predictor: result of `calibrate` or of `pippin.load`, with its calibration scores.
        from_probs: whether `forward` takes probabilities instead of logits.

    Attributes:
        classes (Classes): the names of the columns, in their order.
        n_calibration (int): number of calibration rows.
        from_probs (bool): whether `forward` takes probabilities instead of logits.
        sharpened (bool): whether the probabilities are sharpened first.
        n_features (int): number of features that `forward` takes for the sharpener.
        linear (bool): whether the score is linear in the probabilities.
        randomized (bool): whether the score is randomized.

    >>> import pippin.torch, torch
    >>> data = pippin.load_example()
    >>> head = pippin.torch.PValueHead(pippin.calibrate(data.probs, data.labels, "pip"), from_probs=True)
    >>> head(torch.tensor(data.probs[:2])).amax(dim=1)
    tensor([0.4588, 0.3990], dtype=torch.float64)
    """

    keys: torch.Tensor
    offsets: torch.Tensor
    of: torch.Tensor

    def __init__(self, predictor: ConformalPredictor, *, from_probs: bool = False) -> None:
        given = exportable_p_values(predictor)
        super().__init__(given, from_probs)
        self.n_calibration = predictor.n_calibration
        for name, numbers in zip(("value_bits", "keys", "offsets", "of"), _sorted_scores(given.held), strict=True):
            self.register_buffer(name, numbers.view(torch.int64))

    def forward(
        self,
        x: torch.Tensor,
        u: torch.Tensor | None = None,
        v: torch.Tensor | None = None,
        group: torch.Tensor | None = None,
        smoothed: bool = False,
        features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute p-values of logits of shape (…, K), or of probabilities with `from_probs=True`.

        Args:
            x: logits of any float type; the softmax of half floats is computed in float32.
            u: for a randomized score, one number in (0, 1) per object; random by default.
            v: for smoothed p-values, one number in [0, 1) per object; random by default.
            group: index of each object's group, if p-values are computed per group.
            smoothed: whether p-values are smoothed; they always are if `v` is passed.
            features: features of each object for the sharpener (recalibration map), shape (…, n_features).

        Returns:
            P-values in float64, shape (…, K).
        """
        (flat, logits), rows = self._scored_rows(x, features), self._group_rows(group, x)
        score, weights = self._score(u, flat), uniform("v", v, smoothed, flat)
        keys = self._numbers("keys") if len(self.offsets) == 2 else self.keys
        held = self._numbers("value_bits"), keys, self.offsets, self.of
        return p_values(flat, *score, *held, weights, rows, logits).reshape(*x.shape[:-1], -1)

    def extra_repr(self) -> str:
        return f"{len(self.classes)} classes, {self.n_calibration:,} calibration examples, from_probs={self.from_probs}"
