"""What streams and monitors share: a file from which each goes on, and how a notebook shows them."""

from os import PathLike
from typing import Any, ClassVar, Self

from pippin._conformal.saving import write_predictor
from pippin._runtime.showing import html_facts


class Resumes:
    """Keeps its state in a file, whose kind says how `files.py` writes and reads it."""

    _kind: ClassVar[str]

    def describe(self) -> str:
        """What it has seen, in a sentence."""
        raise NotImplementedError

    def save(self, path: "str | PathLike[str]") -> None:
        """Writes its whole state, the predictor included if it has one, to one file, which is never half-written.

        What is loaded from it goes on as if it had never stopped, to the last bit.

        Args:
            path: the file.
        """
        from pippin._online.files import KINDS

        write_predictor(path, {"kind": self._kind, **KINDS[self._kind].content(self)})

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> Self:
        """Reads what `save` wrote.

        Args:
            path: the file.

        Raises:
            InputError: the file is damaged, was edited, or holds something else.
        """
        from pippin._online.files import read

        found: Self = read(path, cls._kind)
        return found

    def _repr_html_(self) -> str:
        return html_facts(f"{type(self).__name__}: {self.describe()}", self._facts())

    def _facts(self) -> dict[str, Any]:
        """What a notebook shows, by name."""
        raise NotImplementedError
