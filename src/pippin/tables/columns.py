"""Roles of the columns of a table: class probabilities, label, ids and group, by name or by content."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.errors import InputError, warn
from pippin._validation.labels import Reading
from pippin._validation.rows import are_distributions, could_be_distributions, quoted, shortened, suspect_columns

LABEL, GROUP = "label", "group"  # default names of the columns of labels and groups
SAMPLE = 256  # number of rows from which the columns of probabilities are found
MOST_RUNS, MOST_COLUMNS = 1000, 2048  # runs of columns that are tested, and neighbors between which they may begin


class Layout(NamedTuple):
    """Roles of columns that the user chose; `find_columns` finds the others by name and content.

    Attributes:
        label: the column of the true classes.
        ids: the columns of row ids, which are copied to the output.
        classes: the columns of probabilities.
        prefix: prefix of the columns of probabilities; the rest of a column name is the class name.
        logits: True if the columns of probabilities hold logits instead.
        normalize: True if each row is divided by its sum.
        labels_are: "names" or "indices": the meaning of labels that could be class names or class indices.
        group: the column of groups.
        ignore: columns to leave out.
        known: the class names of the predictor that is applied to the table, if they are known.
    """

    label: str | None = None
    ids: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    prefix: str | None = None
    logits: bool = False
    normalize: bool = False
    labels_are: Reading | None = None
    group: str | None = None
    ignore: tuple[str, ...] = ()
    known: tuple[str, ...] | None = None

    @property
    def names_classes(self) -> bool:
        """True if the user chose the columns of probabilities."""
        return self.classes is not None or self.prefix is not None

    def named(self) -> Iterator[tuple[str, str]]:
        """Yield the option and the name of each column that the user named."""
        several = {"--id": self.ids, "--classes": self.classes or (), "--ignore": self.ignore}
        single = {"--label": self.label, "--group": self.group}
        yield from ((option, name) for option, name in single.items() if name is not None)
        yield from ((option, name) for option, names in several.items() for name in names)


def command_line_options(layout: Layout) -> list[str]:
    """Return the command line options that choose the column roles of a layout.

    >>> command_line_options(Layout(ids=("photo", "camera"), logits=True))
    ['--id', 'photo', '--id', 'camera', '--logits']
    """
    words: list[str] = []
    for name, value in layout._asdict().items():
        if name in ("ids", "ignore"):
            words += [word for each in value for word in (f"--{name.removesuffix('s')}", each)]
        elif name != "known" and value is not None and value is not False:
            values = [] if value is True else [",".join(value) if isinstance(value, tuple) else value]
            words += [f"--{name.replace('_', '-')}", *values]
    return words


class TableColumns(NamedTuple):
    """Names of the columns of a table by role; `classes` are the columns of probabilities, `names` the class names.

    If a single column holds the probability of the second of two classes, `classes` has one entry and `names` two.
    """

    classes: list[str]
    names: tuple[str, ...]
    label: str | None
    group: str | None
    ids: tuple[str, ...]

    def of(self, role: str) -> tuple[str, ...]:
        """Return the columns of the role "labels", "groups" or "ids"; empty if the table has none."""
        if role == "ids":
            return self.ids
        column = self.label if role == "labels" else self.group
        return () if column is None else (column,)

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles other than probabilities that the table has columns for."""
        return tuple(role for role in ("labels", "groups", "ids") if self.of(role))


class Sample(NamedTuple):
    """First rows of a table, by which `find_columns` distinguishes class probabilities from other columns.

    Attributes:
        numbers: the cells of each column of numbers or text as floats, by name; NaN where a cell is no number.
        values: function that returns the different values of a column in these rows as text.
        all_values: function that returns the different values of a column in all rows as text.
        warns: True to warn of the columns that are ignored.
    """

    numbers: Mapping[str, NDArray[Any]]
    values: Callable[[str], set[str]]
    all_values: Callable[[str], set[str]]
    warns: bool = True


def find_columns(header: Sequence[str], layout: Layout, where: object, sample: Sample | None = None) -> TableColumns:
    """Find the columns of probabilities, labels, groups and ids of a table.

    Columns of probabilities are, in this order: those that the layout names, those with the names of a predictor's
    classes, and the longest run of neighboring columns that sum to 1. A warning names the columns that are ignored.

    Args:
        header: the names of all columns.
        layout: the choices of the user.
        where: the table, for messages.
        sample: the first rows; None to find columns by name only.

    Raises:
        InputError: the table lacks columns that the layout names, or several runs of columns could be probabilities.

    >>> find_columns(["id", "p_crop", "p_weed", "label"], Layout(ids=("id",), prefix="p_"), "data.csv")[:3]
    (['p_crop', 'p_weed'], ('crop', 'weed'), 'label')
    """
    if missing := [f"{name!r} for {option}" for option, name in layout.named() if name not in header]:
        several = "column" if len(missing) == 1 else "columns"
        what = f"{where} has no {several} {' or '.join(missing)}, but {shortened(header)}"
        raise InputError(what, "check its name" if len(missing) == 1 else "check their names")
    others, chosen = {name for option, name in layout.named() if option != "--classes"}, layout.classes or ()
    label = layout.label or _default(LABEL, header, (*others, *chosen))
    group = layout.group or _default(GROUP, header, (*others, *chosen))
    roles = label, group, layout.ids
    rest = [name for name in header if name and name not in {*others, label, group}]
    prefix = layout.prefix or ""
    if layout.classes is not None:
        return _stripped(list(layout.classes), prefix, *roles)
    if layout.prefix is not None:
        if not (classes := [name for name in rest if name.startswith(prefix) and name != prefix]):
            what = f"{where} has no column that begins with {prefix!r}, but {shortened(header)}"
            raise InputError(what, "check --prefix")
        return _stripped(classes, prefix, *roles)
    columns = _by_known_names(rest, layout.known, *roles) or _by_content(rest, layout, where, sample, *roles)
    if (sample is None or sample.warns) and (ignored := [name for name in header if not name or name in rest]):
        ignored = [name or "without a name" for name in ignored if name not in columns.classes]
        if ignored:
            hold = "holds" if len(ignored) == 1 else "hold"
            warn(f"{where}: ignored the {quoted(ignored)}, which {hold} no class probabilities.")
    return columns


def _default(name: str, header: Sequence[str], others: Sequence[str]) -> str | None:
    return name if name in header and name not in others else None


def _stripped(classes: list[str], prefix: str, *roles: Any) -> TableColumns:
    """Return a `TableColumns` in which the class names are the names of the columns without the prefix."""
    return TableColumns(classes, tuple(name.removeprefix(prefix) for name in classes), *roles)


def _by_known_names(rest: Sequence[str], known: tuple[str, ...] | None, *roles: Any) -> TableColumns | None:
    """Return the columns that are named like the classes of a predictor, perhaps with a common prefix; None if none."""
    prefixes = [name.removesuffix(known[0]) for name in rest if name.endswith(known[0])] if known else []
    for prefix in sorted(prefixes, key=len):
        wanted = {prefix + name for name in known or ()}
        if wanted <= set(rest):
            return _stripped([name for name in rest if name in wanted], prefix, *roles)
    return None


def _by_content(rest: list[str], layout: Layout, where: object, sample: Sample | None, *roles: Any) -> TableColumns:
    """Find the columns of probabilities by their values; return all columns of `rest` if values are not decisive."""
    label = roles[0]
    numbers = {} if sample is None else sample.numbers
    numeric = [name for name in rest if name in numbers and not np.isnan(numbers[name]).all()]
    if sample is None or not numeric:
        return _stripped(rest, "", *roles)
    values = np.column_stack([numbers[name] for name in numeric])
    if layout.logits or layout.normalize:
        whole = suspect_columns(values, True) if layout.logits else []
        return _stripped([name for k, name in enumerate(numeric) if k not in whole], "", *roles)
    runs = _runs_of_distributions(values, [rest.index(name) for name in numeric])
    if len(runs) > 1:
        first, second = (f"{numeric[start]!r} to {numeric[stop - 1]!r}" for start, stop in runs[:2])
        what = f"{where} has several runs of columns that sum to 1, {first} and {second}"
        raise InputError(what, "choose one with --prefix or --classes")
    if not runs:
        texts = set() if label is None or layout.known is not None else sample.all_values(label)
        return _of_two_classes(numeric, values, texts, layout.known, *roles) or _stripped(rest, "", *roles)
    texts = set() if label is None else sample.values(label)
    classes = [numeric[k] for k in range(*runs[0])]
    if texts & (set(rest) - set(classes)):  # a label names another column: let the checks of all columns report it
        return _stripped(rest, "", *roles)
    return _stripped(classes, _prefix_by_labels(classes, texts), *roles)


def _runs_of_distributions(values: NDArray[Any], places: Sequence[int]) -> list[tuple[int, int]]:
    """Find disjoint runs (start, stop) of neighboring columns in which every row sums to 1, the longest first.

    Args:
        values: the numbers of the columns; NaN where a cell is no number.
        places: the place of each column in the table; columns are neighbors if their places differ by 1.
    """
    ends = [0, *(k for k in range(1, len(places)) if places[k] != places[k - 1] + 1), len(places)]
    inside = could_be_distributions(values)
    segments: list[tuple[int, int]] = []
    for begin, end in pairwise(ends):
        cuts = [begin - 1, *(begin + k for k in np.flatnonzero(~inside[begin:end]).tolist()), end]
        segments += [(a + 1, b) for a, b in pairwise(cuts) if b - a > 2]
    found: list[tuple[int, int]] = []
    for begin, end in segments:
        sums = np.concatenate([[0.0], values[0, begin:end].cumsum()])
        starts = range(begin, end) if end - begin <= MOST_COLUMNS else (begin, begin + 1)  # else only end columns
        several = [(a, b) for a in starts for b in np.flatnonzero(np.abs(sums - sums[a - begin] - 1) <= 0.06) + begin]
        for a, b in sorted(several, key=lambda run: run[0] - run[1])[:MOST_RUNS]:
            if b - a > 1 and not any(a < stop and start < b for start, stop in found):
                found += [(a, int(b))] if are_distributions(values[:, a:b]) else []
    return sorted(found, key=lambda run: run[0] - run[1])


def _prefix_by_labels(classes: list[str], labels: set[str]) -> str:
    """Return the longest common prefix of column names without which all labels are class names; empty if none.

    It is empty too if all labels can be column numbers.

    >>> _prefix_by_labels(["p_crop", "p_weed"], {"weed"}), _prefix_by_labels(["crop", "weed"], {"weed"})
    ('p_', '')
    >>> _prefix_by_labels(["c1", "c2"], {"1", "2"}), _prefix_by_labels(["c1", "c2"], {"0", "1"})
    ('c', '')
    """
    if labels <= set(map(str, range(len(classes)))):
        return ""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*classes, strict=False))
    common = "".join(letters[0] for letters in alike)
    lengths = range(len(common), 0, -1) if labels and not labels <= set(classes) else ()
    return next((common[:n] for n in lengths if labels <= {name[n:] for name in classes}), "")


def _of_two_classes(
    numeric: list[str], values: NDArray[Any], labels: set[str], known: tuple[str, ...] | None, *roles: Any
) -> TableColumns | None:
    """Return the single column of probabilities of the second of two classes; None if there is no such column.

    The second class is the one with the name of the column. If no class has it, the second class is 1 if the classes
    are 0 and 1, and True if they are False and True.
    """
    names = set(known or labels)
    inside = could_be_distributions(values) & (values != np.round(values)).any(axis=0)
    if len(names) != 2 or inside.sum() != 1:
        return None
    column = numeric[int(inside.argmax())]
    spelled = column.casefold().rstrip(")]")
    positive = [name for name in names if spelled.endswith(name.casefold())]
    positive = positive or [name for name in names if name.casefold() in ("1", "1.0", "true")]
    if len(positive) != 1 or (known is not None and positive != [known[1]]):
        return None
    [negative] = names - set(positive)
    numbered = {negative.casefold(), positive[0].casefold()} in ({"0", "1"}, {"0.0", "1.0"}, {"false", "true"})
    if not numbered and not spelled.endswith(positive[0].casefold()):
        return None
    whole = known is None and negative.endswith(".0")
    pair = tuple(name.removesuffix(".0") if whole else name for name in (negative, positive[0]))
    return TableColumns([column], pair, *roles)


def check_distinct_columns(header: Sequence[str], where: object) -> None:
    """Raise an InputError if two columns of a table have the same name."""
    if twice := [name for name, count in Counter(header).items() if count > 1]:
        raise InputError(f"{where} has two columns {twice[0]!r}", "give every class its own column")


def not_a_class(where: object, names: Sequence[str], why: str, has_label: bool) -> InputError:
    """Make the error for columns that were read as class probabilities but hold something else, such as row numbers.

    `has_label` is True if another column has the labels.

    >>> print(not_a_class("data.csv", ["patient id"], "without which every row sums to 1", True))
    data.csv: expected one column of probabilities per class, got the column 'patient id' without which every row sums
    to 1: name it with --id 'patient id', or name the classes with --classes or --prefix.
    """
    remedy = "name the classes with --classes or --prefix"
    if len(names) == 1:
        name = shlex.quote(names[0])
        roles = f"--id {name}" if has_label else f"--id {name} or --label {name}"
        remedy = f"name it with {roles}, or {remedy}"
    what = f"expected one column of probabilities per class, got the {quoted(names)} {why}"
    return InputError(f"{where}: {what}", remedy)


def normalize_rows(values: NDArray[Any], logits: bool, where: object, first: int = 0) -> NDArray[Any]:
    """Divide each row by its sum; for error messages, `first` is the number of the first row in its file."""
    if logits:
        raise InputError("Expected --normalize with probabilities, got logits", "a softmax sums to 1 already")
    sums = values.sum(axis=1, keepdims=True, dtype=np.float64)
    bad = ~(np.isfinite(sums[:, 0]) & (sums[:, 0] > 0)) | (values < 0).any(axis=1)
    if bad.any():
        row = int(bad.argmax())
        what = f"sums to {sums[row, 0]:.6g} or has negative entries, expected what --normalize can divide by its sum"
        raise InputError(what, "correct that row", row=first + row).in_file(where)
    return np.asarray(values / sums)
