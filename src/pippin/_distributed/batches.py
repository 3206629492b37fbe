"""Rows that come in batches, one after the other: the scores of all of them fit where the rows do not."""

import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pippin._conformal.conditional import ConditionalPredictor
from pippin._conformal.marginal import Predictor
from pippin._distributed.calibration import Calibration
from pippin._distributed.part import Part
from pippin._distributed.per_cell import Census
from pippin._distributed.selecting import Ask
from pippin._validation.batched import Batch, Batched, needed, watched
from pippin._validation.labels import ColumnNumbers, Groups, ids_not_groups

IN_MEMORY = 1 << 28  # bytes of scores; more of them wait on disk


def calibrate_batched(
    source: Batched, calibration: Calibration, watch: Callable[[Batch], None] = lambda batch: None
) -> Predictor | ConditionalPredictor:
    """The predictor of all rows; `watch` sees every batch."""
    needs = ("labels", "groups") if calibration.by_group else ("labels",)
    with Held() as held:
        for batch in watched(source, *needs):
            with batch.naming():
                labels = ColumnNumbers(needed(batch.labels))
                held.add(calibration.part(batch.rows, labels, groups=batch.groups, first=batch.first))
            watch(batch)
        return calibration.merged(refusing_ids(held.ask, source.name))


def refusing_ids(ask: Ask, name: str) -> Ask:
    """The same questions to tables of this name, whose groups must not be ids."""

    def asked(question: Callable[[Part], Any]) -> Any:
        answer = ask(question)
        if isinstance(answer, Census) and (ids := ids_not_groups(answer.groups, answer.n)) is not None:
            raise ids.in_file(name)
        return answer

    return asked


class Held:
    """Parts in memory as long as they are few, and then in a file without a name, which goes with the process."""

    def __init__(self, most: int = IN_MEMORY) -> None:
        self._parts: list[Part] = []
        self._most, self._bytes = most, 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *reason: object) -> None:
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, part: Part) -> None:
        """Keeps one more."""
        self._bytes += sum(array.nbytes for array in _arrays(part))
        if self._bytes <= self._most:
            self._parts.append(part)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the rest
        for array in _arrays(part):
            np.save(self._file, array, allow_pickle=False)
        groups = None if part.groups is None else Groups(part.groups.codes[:0].copy(), part.groups.names)
        self._parts.append(Part(WAITS, _none(part.labels), groups, _none(part.ranks), part.first))

    def __iter__(self) -> Iterator[Part]:
        if self._file is not None:
            self._file.seek(0)
        for part in self._parts:
            yield part if part.scores is not WAITS else self._next(part)

    def ask(self, question: Callable[[Part], Any]) -> Any:
        """The sum of the answers of all parts."""
        answers = map(question, self)
        total = next(answers)
        for answer in answers:
            total = total + answer
        return total

    def _next(self, part: Part) -> Part:
        def read() -> Any:
            assert self._file is not None
            return np.load(self._file, allow_pickle=False)

        scores = read()
        labels = None if part.labels is None else read()
        groups = None if part.groups is None else Groups(read(), part.groups.names)
        return Part(scores, labels, groups, None if part.ranks is None else read(), part.first)


WAITS = np.empty(0)  # in place of scores that are on disk


def _arrays(part: Part) -> list[NDArray[Any]]:
    codes = None if part.groups is None else part.groups.codes
    return [array for array in (part.scores, part.labels, codes, part.ranks) if array is not None]


def _none(array: Any) -> Any:
    return None if array is None else array[:0].copy()
