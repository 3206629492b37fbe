"""What the columns of a table mean: which are classes, which one is the label, the id or the group."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.errors import InputError
from pippin._validation.labels import Reading, shortened
from pippin._validation.rows import SUM_TOLERANCE, explained_by_rounding

__all__ = ["Layout"]

LABEL, GROUP = "label", "group"  # the columns that are no class, unless somebody says otherwise


class Layout(NamedTuple):
    """What somebody has said of a table; the rest is as its columns are called.

    Attributes:
        label: the column of the true classes.
        id: the column that names the rows.
        classes: the columns of probabilities.
        prefix: what the names of these columns begin with and the classes' do not.
        logits: whether they are logits.
        normalize: whether each row is divided by its sum.
        labels_are: whether labels are "names" or "indices" of columns.
    """

    label: str | None = None
    id: str | None = None
    classes: tuple[str, ...] | None = None
    prefix: str | None = None
    logits: bool = False
    normalize: bool = False
    labels_are: Reading | None = None


def spelled(layout: Layout) -> list[str]:
    """The options of the command line that say the same.

    >>> spelled(Layout(id="photo", logits=True))
    ['--id', 'photo', '--logits']
    """
    words: list[str] = []
    for name, value in layout._asdict().items():
        if value is not None and value is not False:
            own = [] if value is True else [",".join(value) if isinstance(value, tuple) else value]
            words += [f"--{name.replace('_', '-')}", *own]
    return words


class Columns(NamedTuple):
    """The names of the columns by what they hold; `names` are those of the classes."""

    classes: list[str]
    names: tuple[str, ...]
    label: str | None
    group: str | None
    id: str | None
    chosen: bool


def find_columns(header: Sequence[str], layout: Layout, where: object) -> Columns:
    """Which column is what.

    Raises:
        InputError: a column that was named is not there.

    >>> find_columns(["id", "p_crop", "p_weed", "label"], Layout(id="id", prefix="p_"), "data.csv")[:3]
    (['p_crop', 'p_weed'], ('crop', 'weed'), 'label')
    """
    asked = {"--label": layout.label, "--id": layout.id}
    for option, name in (*asked.items(), *(("--classes", name) for name in layout.classes or ())):
        if name is not None and name not in header:
            raise InputError(f"{where} has no column {name!r} for {option}, but {shortened(header)}", "check its name")
    label = layout.label or (LABEL if LABEL in header else None)
    group = GROUP if GROUP in header and GROUP not in asked.values() else None
    begin = layout.prefix or ""
    if layout.classes is not None:
        found = list(layout.classes)
    else:
        taken = (label, group, layout.id)
        found = [name for name in header if name.startswith(begin) and name not in taken and name != begin]
        if layout.prefix is not None and not found:
            raise InputError(
                f"{where} has no column that begins with {begin!r}, but {shortened(header)}", "check --prefix"
            )
    names = tuple(name.removeprefix(begin) for name in found)
    return Columns(found, names, label, group, layout.id, layout.classes is not None or layout.prefix is not None)


def no_class(where: object, names: Sequence[str], why: str) -> InputError:
    """These columns are not classes."""
    which = f"the column {names[0]!r}" if len(names) == 1 else f"the columns {', '.join(map(repr, names[:4]))}"
    return InputError(
        f"{where}: expected one column of probabilities per class, got {which} {why}",
        f"name it with --id {names[0]} or --label {names[0]}, or name the classes with --classes or --prefix",
    )


def strangers(values: NDArray[Any], logits: bool) -> list[int]:
    """The columns that are no classes: without them all rows are distributions, with them they are not.

    Beside logits, a column of whole numbers where others are none.

    >>> strangers(np.array([[7, 0.25, 0.75], [8, 0.5, 0.5]]), False)
    [0]
    """
    if logits:
        whole = (values == np.round(values)).all(axis=0)
        return np.flatnonzero(whole).tolist() if 0 < whole.sum() <= len(whole) - 2 and len(values) > 1 else []
    with np.errstate(invalid="ignore"):
        outside = np.asarray(~((values >= 0) & (values <= 1 + SUM_TOLERANCE)).all(axis=0))
    inside = values[:, ~outside]
    if inside.shape[1] < 2:
        return []
    if outside.any() and _are_distributions(inside):
        return np.flatnonzero(outside).tolist()
    for column in range(inside.shape[1]):
        if inside.shape[1] > 2 and _are_distributions(np.delete(inside, column, axis=1)):
            outside[np.flatnonzero(~outside)[column]] = True
            return np.flatnonzero(outside).tolist()
    return []


def normalized(values: NDArray[Any], where: object, first: int = 0) -> NDArray[Any]:
    """Each row divided by its sum; the first is so many below the top."""
    sums = values.sum(axis=1, keepdims=True, dtype=np.float64)
    bad = ~(np.isfinite(sums[:, 0]) & (sums[:, 0] > 0)) | (values < 0).any(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"sums to {sums[row, 0]:.6g} or has negative entries, expected what --normalize can divide by its sum",
            "mend that row",
            row=first + row,
        ).in_file(where)
    return np.asarray(values / sums)


def _are_distributions(values: NDArray[Any]) -> bool:
    sums = values.sum(axis=1, dtype=np.float64)
    good = np.abs(sums - 1) <= SUM_TOLERANCE
    return bool(good.all()) or bool((good | explained_by_rounding(values, sums)).all())
