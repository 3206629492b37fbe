"""One threshold for all rows, however it was found: what predictors with one do with rows, and with a single one."""

from functools import cached_property
from typing import Any

import numpy as np

from pippin._conformal import answers
from pippin._conformal.answers import asked_rows
from pippin._conformal.sets import PredictionSets
from pippin._engine import dispatch
from pippin._engine.draws import draws, generator_of
from pippin._engine.protocol import Bounds
from pippin._runtime.arrays import Indices, Seed
from pippin._validation.batched import is_batched
from pippin._validation.labels import as_one_row


class OneThreshold:
    """A predictor with `score`, `threshold` and `classes`."""

    def predict(
        self, probs: Any, *, seed: Seed = None, nonempty: bool = False, from_logits: bool = False
    ) -> PredictionSets:
        """The set of every row: all classes whose score is at most the threshold.

        Args:
            probs: (n, K) probabilities; logits with `from_logits=True`. Or what `pippin.scan` returns.
            seed: for a randomised score; a seed or a Generator.
            nonempty: whether the most probable class is put into sets that would be empty:
                coverage can only rise, and so does the mean size.
            from_logits: whether `probs` are logits, of which a softmax is taken.

        >>> import pippin
        >>> data = pippin.load_example()
        >>> predictor = pippin.calibrate(data.probs[:2000], data.labels[:2000], classes=data.classes)
        >>> predictor.predict(data.probs[2000:])
        PredictionSets(2,986 objects, 12 classes, mean size 1.48, 73 % singletons)
        """
        own: Any = self
        if is_batched(probs):
            return answers.sets_of_batches(own, probs, seed, nonempty, from_logits=from_logits or None)
        rows = asked_rows(own.classes, probs, from_logits)
        limit = Bounds(np.array(own.threshold, ndmin=2))
        return answers.sets_within(own, rows, limit, draws(own.score, rows.n, seed), nonempty)

    def predict_one(self, row: Any, *, seed: Seed = None) -> Indices:
        """One object's class indices, most probable first, as in `PredictionSets.members`.

        It comes with the least delay. The first call in a process loads the compiled loop; see `pippin.warm_up`.

        Args:
            row: its K probabilities, not logits.
            seed: for a randomised score; a seed or a Generator.
        """
        own: Any = self
        randomized, one_set = self._one
        found = as_one_row(row, own.classes)
        return one_set(found, generator_of(seed).random() if randomized else 0.0, own.threshold)

    @cached_property
    def _one(self) -> tuple[bool, dispatch.OneSet]:
        """What `predict_one` would otherwise look up for every row."""
        own: Any = self
        return own.score.randomized, dispatch.one_set(own.score, len(own.classes))
