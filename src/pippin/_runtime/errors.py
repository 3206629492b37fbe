"""What a caller gave cannot be used: said once, as data that other rooms can pass on in their own words."""


class InputError(ValueError):
    """An input that cannot be used: what was expected and what came, and what to do about it.

    Args:
        what: the sentence without its remedy and full stop.
        remedy: what to do, for someone who has arrays in Python.
        in_files: the same for someone who has files, where it differs.
        row: the row that `what` is said of, counted from 0.

    Attributes:
        what (str): the sentence without its remedy, the row in it.
        remedy (str | None): what to do, for someone who has arrays in Python.
        in_files (str | None): the same for someone who has files, where it differs.
        row (int | None): the row, counted from 0.

    >>> error = InputError("sums to 4, expected 1", "pass from_logits=True", "add --logits", row=3)
    >>> print(error)
    Row 3 sums to 4, expected 1: pass from_logits=True.
    >>> print(error.in_file("data.csv"))
    data.csv: Row 3 sums to 4, expected 1: add --logits.
    >>> print(error.later(1000).in_file("data.csv"))
    data.csv: Row 1003 sums to 4, expected 1: add --logits.
    """

    def __init__(
        self, what: str, remedy: str | None = None, in_files: str | None = None, row: int | None = None
    ) -> None:
        told = what if row is None else f"Row {row} {what}"
        super().__init__(f"{told}: {remedy}." if remedy else f"{told}.")
        self.what, self.remedy, self.in_files, self.row, self._said = told, remedy, in_files, row, what

    def later(self, rows: int) -> "InputError":
        """The same error where so many rows come before those that were looked at.

        Args:
            rows: how many.
        """
        return self if self.row is None else InputError(self._said, self.remedy, self.in_files, self.row + rows)

    def at(self, place: object) -> "InputError":
        """The same error of one part of several.

        Args:
            place: the part, such as `Model 2`.
        """
        return InputError(f"{place}: {self.what}", self.remedy, self.in_files)

    def in_file(self, name: object) -> "InputError":
        """The same error for someone whose data are in a file.

        Args:
            name: the file.
        """
        return InputError(f"{name}: {self.what}", self.in_files or self.remedy)

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str | None, str | None, int | None]]:
        return InputError, (self._said, self.remedy, self.in_files, self.row)


class UnknownScore(InputError):
    """A score that nobody has registered, here or yet."""
