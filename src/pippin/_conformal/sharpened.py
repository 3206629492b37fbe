"""Predictors that sharpen probabilities before they look at them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pippin._conformal.combination import Combination
from pippin._conformal.conditional import ConditionalPredictor
from pippin._conformal.content import Content, need
from pippin._conformal.cross import CrossPredictor
from pippin._conformal.explaining import Explanation
from pippin._conformal.marginal import Predictor
from pippin._conformal.protocol import ConformalPredictor
from pippin._conformal.saving import Saved, decoded
from pippin._conformal.sets import PredictionSets
from pippin._conformal.units import UnitPredictor
from pippin._conformal.weighted import WeightedPredictor
from pippin._decisions.risk import RiskController
from pippin._engine.draws import generator_of
from pippin._runtime.arrays import Classes, Indices, Seed, Vector
from pippin._runtime.errors import InputError
from pippin._sharpening import storing
from pippin._sharpening.sharpener import Sharpener, as_features
from pippin._validation.index import same_index
from pippin._validation.labels import shortened
from pippin._validation.rows import Rows, as_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEHIND = (Predictor, ConditionalPredictor, WeightedPredictor, UnitPredictor, Combination, RiskController)


class Relays(Saved):
    """One of which is true what is true of the predictors behind it; of several, which agree, of the first."""

    @property
    def alpha(self) -> float:
        """The share of errors allowed."""
        return self._behind[0].alpha

    @property
    def n_calibration(self) -> int:
        """How many rows calibrated it, all predictors behind it together."""
        return sum(one.n_calibration for one in self._behind)

    @property
    def classes(self) -> Classes:
        """The names of the columns, in their order."""
        return self._behind[0].classes

    @property
    def guarantee(self) -> float:
        """The coverage that is proven, that of the predictor behind; where rows draw one, over the draw as well."""
        return self._behind[0].guarantee

    @property
    def _behind(self) -> Sequence[ConformalPredictor]:
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False)
class SharpenedPredictor(Relays):
    """A predictor of any kind behind a sharpener, which it is given sharper probabilities by.

    Behind a cross-conformal predictor stands one sharpener per fold, each learnt without that fold.

    Attributes:
        base: the predictor behind.
        sharpeners: one; or one per fold.
    """

    base: ConformalPredictor
    sharpeners: tuple[Sharpener, ...]

    @property
    def takes(self) -> frozenset[str]:
        """What `predict` may be told beside the rows."""
        return (self.base.takes - {"folds"}) | ({"features"} if self.sharpeners[0].takes_features else set())

    def at(self, alpha: float) -> "SharpenedPredictor":
        """Another level from the same calibration.

        Args:
            alpha: the share of errors allowed.
        """
        base: Any = self.base
        return replace(self, base=base.at(alpha))

    def predict(
        self, probs: Any, *, features: ArrayLike | None = None, from_logits: bool = False, **kwargs: Any
    ) -> PredictionSets:
        """The prediction set of every row; seed, nonempty, groups or weights are told to the predictor behind.

        Args:
            probs: (n, K) probabilities, not sharpened; logits with `from_logits=True`.
            features: what the sharpener was shown beside them, one row per object.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> sharper = pippin.sharpen(data.probs[:1200], data.labels[:1200])
        >>> predictor = pippin.calibrate(data.probs[1200:2400], data.labels[1200:2400], "socop", sharpen=sharper)
        >>> sets = predictor.predict(data.probs[2400:])
        """
        return self.base.predict(self._sharper(probs, features, from_logits), **kwargs)

    def p_values(
        self,
        probs: Any,
        labels: ArrayLike | None = None,
        *,
        features: ArrayLike | None = None,
        from_logits: bool = False,
        **kwargs: Any,
    ) -> Vector:
        """The p-value of every class, (n, K); with labels of one class per row, (n,).

        What else there is to say, seed, smoothed, groups or weights, is told to the predictor behind.

        Args:
            probs: (n, K) probabilities, not sharpened; logits with `from_logits=True`.
            labels: one class per row, as indices or as names; None asks for all classes.
            features: what the sharpener was shown beside them, one row per object.
            from_logits: whether `probs` are logits, of which a softmax is taken.
        """
        base: Any = self.base
        found: Vector = base.p_values(self._sharper(probs, features, from_logits), labels, **kwargs)
        return found

    def explain(self, row: Any, *, features: ArrayLike | None = None, **kwargs: Any) -> Explanation:
        """Why each class is in the object's set or not, by its sharper probabilities.

        Args:
            row: its K probabilities, not logits and not sharpened.
            features: what the sharpener was shown beside them.
        """
        base: Any = self.base
        if len(self.sharpeners) > 1 or not hasattr(base, "explain"):
            raise InputError(f"Expected a predictor with one threshold for a class, got {self!r}", "look at p_values")
        found: Explanation = base.explain(self.sharpeners[0].one(row, features=features), **kwargs)
        return found

    def predict_one(self, row: Any, *, features: ArrayLike | None = None, **kwargs: Any) -> Indices:
        """One object's class indices, most probable first; the rest is told to the predictor behind.

        Args:
            row: its K probabilities, not logits.
            features: what the sharpener was shown beside them.
        """
        base: Any = self.base
        every = [one.one(row, features=features) for one in self.sharpeners]
        found: Indices = base.predict_one(every if isinstance(base, CrossPredictor) else every[0], **kwargs)
        return found

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """What the predictor behind the sharpener shows; Matplotlib axes.

        Args:
            ax: where to draw; new axes, if not given.
        """
        if not hasattr(self.base, "plot"):
            raise InputError(f"Expected a predictor that has a picture, got {self.base!r}", "look at describe()")
        drawn: Axes = self.base.plot(ax)
        return drawn

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        several = f"{len(self.sharpeners)} sharpeners, the first " if len(self.sharpeners) > 1 else "a sharpener "
        return f"{self.base.describe()[:-1]}; behind {several}{self.sharpeners[0].describe()}."

    def content(self) -> dict[str, Any]:
        """What a file holds of it."""
        return {
            "kind": "sharpened",
            "base": self.base.content(),
            "sharpeners": [one.content() for one in self.sharpeners],
        }

    def __repr__(self) -> str:
        return f"SharpenedPredictor({self.base!r}, {', '.join(map(repr, self.sharpeners[:1]))})"

    @property
    def _behind(self) -> tuple[ConformalPredictor]:
        return (self.base,)

    def _sharper(self, probs: Any, features: ArrayLike | None, from_logits: bool) -> Rows | list[Rows]:
        every = [one.rows(probs, features=features, from_logits=from_logits) for one in self.sharpeners]
        return every if isinstance(self.base, CrossPredictor) else every[0]


@dataclass(frozen=True, eq=False, repr=False)
class SharpenedMixture(Relays):
    """Several sharpened predictors, each calibrated on the rows that its sharpener did not see: every row draws one.

    Each covers with probability 1 − α, and so does one of them chosen at random.

    Attributes:
        parts: the predictors that are drawn from.
    """

    parts: tuple[SharpenedPredictor, ...]

    @property
    def takes(self) -> frozenset[str]:
        """What `predict` may be told beside the rows."""
        return self.parts[0].takes | {"seed"}

    def at(self, alpha: float) -> "SharpenedMixture":
        """Another level from the same calibration.

        Args:
            alpha: the share of errors allowed.
        """
        return SharpenedMixture(tuple(part.at(alpha) for part in self.parts))

    def predict(
        self,
        probs: Any,
        *,
        seed: Seed = None,
        features: ArrayLike | None = None,
        nonempty: bool = False,
        from_logits: bool = False,
    ) -> PredictionSets:
        """The prediction set of every row, from the part that it draws.

        Args:
            probs: (n, K) probabilities, not sharpened; logits with `from_logits=True`.
            seed: draws the part of every row, and then u for a randomised score; a seed or a Generator.
            features: what the sharpeners were shown beside them, one row per object.
            nonempty: whether the most probable class is put into sets that would be empty.
            from_logits: whether `probs` are logits, of which a softmax is taken.
        """
        rows, generator = as_rows(probs, from_logits).verified(), generator_of(seed)
        same_index("probs", rows.index, features=features)
        beside = None if features is None else as_features(features, rows.n)
        drawn = generator.integers(len(self.parts), size=rows.n)
        sizes = np.empty(rows.n, dtype=np.int64)
        members, owners = [], []
        for number, part in enumerate(self.parts):
            of = np.flatnonzero(drawn == number)
            if not len(of):
                continue
            chosen = Rows(rows.array[of], rows.logits, rows.names, checked=True)
            some = None if beside is None else beside[of]
            sets = part.predict(chosen, seed=generator, nonempty=nonempty, features=some)
            sizes[of] = sets.sizes
            members.append(sets.members)
            owners.append(np.repeat(of, sets.sizes))
        order = np.argsort(np.concatenate(owners), kind="stable")
        return PredictionSets(sizes, np.concatenate(members)[order], self.classes, rows.index)

    def predict_one(self, row: Any, *, seed: Seed = None, features: ArrayLike | None = None) -> Indices:
        """One object's class indices, most probable first, from the part that it draws.

        Args:
            row: its K probabilities, not logits.
            seed: draws the part, and then u for a randomised score; a seed or a Generator.
            features: what the sharpeners were shown beside them.
        """
        generator = generator_of(seed)
        part = self.parts[int(generator.integers(len(self.parts), size=1)[0])]
        return part.predict_one(row, seed=generator, features=features)

    def describe(self) -> str:
        """What it is and what it promises, in a sentence."""
        return (
            f"{len(self.parts)} sharpened predictors, each calibrated on rows that its sharpener did not see, of which "
            f"every object draws one: its sets hold the true class {100 * self.guarantee:g} % of the time."
        )

    def content(self) -> dict[str, Any]:
        """What a file holds of it."""
        return {"kind": "sharpened mixture", "parts": [part.content() for part in self.parts]}

    def __repr__(self) -> str:
        return f"SharpenedMixture({len(self.parts)} of {self.parts[0]!r})"

    @property
    def _behind(self) -> tuple[SharpenedPredictor, ...]:
        return self.parts


def stand_behind(sharpener: Sharpener, base: ConformalPredictor) -> SharpenedPredictor:
    """The predictor behind the sharpener; the two must agree on the classes."""
    if not isinstance(base, BEHIND):
        raise InputError(
            f"Expected a predictor of sets with thresholds of its own, got {base!r}",
            "put marginal, conditional, weighted, unit, combined or risk-controlling ones behind a sharpener",
        )
    if base.classes != sharpener.classes:
        raise InputError(
            f"Expected the classes of the sharpener ({shortened(sharpener.classes)}), got {shortened(base.classes)}",
            "sharpen and calibrate with the same classes=",
        )
    return SharpenedPredictor(base, (sharpener,))


def from_content(content: Content, read: Callable[[dict[str, Any]], ConformalPredictor]) -> SharpenedPredictor:
    """A sharpened predictor from the content of its file; `read` reads the one behind."""
    inner = content.take("base", lambda value: isinstance(value, dict) and "sharpened" not in str(value.get("kind")))
    given = content.take("sharpeners", lambda value: isinstance(value, list) and len(value) > 0)
    content.finish()
    base = read(decoded(inner))
    need("base", isinstance(base, (*BEHIND, CrossPredictor)))
    sharpeners = []
    for one in given:
        need("sharpeners", isinstance(one, dict) and one.get("kind") == "sharpener")
        parts = {key: value for key, value in one.items() if key != "kind"}
        sharpeners.append(storing.from_content(Content(parts)))
    wanted = len(base.fold_scores) if isinstance(base, CrossPredictor) else 1
    need("sharpeners", len(sharpeners) == wanted and all(one.classes == base.classes for one in sharpeners))
    return SharpenedPredictor(base, tuple(sharpeners))


def mixture_from_content(content: Content, read: Callable[[dict[str, Any]], ConformalPredictor]) -> SharpenedMixture:
    """A mixture from the content of its file."""
    given = content.take("parts", lambda value: isinstance(value, list) and len(value) > 1)
    content.finish()
    parts = []
    for one in given:
        need("parts", isinstance(one, dict) and one.get("kind") == "sharpened")
        parts.append(from_content(Content({key: value for key, value in one.items() if key != "kind"}), read))
    need("parts", len({(part.alpha, tuple(part.classes)) for part in parts}) == 1)
    need("parts", all(isinstance(part.base, Predictor) for part in parts))
    return SharpenedMixture(tuple(parts))
