"""What a caller gave cannot be used: said once, as data that other rooms can pass on in their own words."""


class InputError(ValueError):
    """An input that cannot be used: what was expected and what came, and what to do about it.

    Args:
        what: the sentence without its remedy and full stop.
        remedy: what to do, for someone who has arrays in Python.
        in_files: the same for someone who has files, where it differs.

    >>> error = InputError("Row 3 sums to 4, expected 1", "pass from_logits=True", "add --logits")
    >>> print(error)
    Row 3 sums to 4, expected 1: pass from_logits=True.
    >>> print(error.in_file("data.csv"))
    data.csv: Row 3 sums to 4, expected 1: add --logits.
    """

    def __init__(self, what: str, remedy: str | None = None, in_files: str | None = None) -> None:
        super().__init__(f"{what}: {remedy}." if remedy else f"{what}.")
        self.what, self.remedy, self.in_files = what, remedy, in_files

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

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str | None, str | None]]:
        return InputError, (self.what, self.remedy, self.in_files)
