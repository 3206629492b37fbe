"""Conversion of prediction sets and p-values to pandas and polars frames; the libraries are imported on first use."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pippin._runtime.arrays import Classes, Vector
from pippin._runtime.errors import InputError
from pippin._validation.rows import Rows


def sets_frame(
    sizes: NDArray[np.int64],
    labels: list[list[str | int]],
    mask: NDArray[np.bool_] | None,
    classes: Classes,
    index: Any,
    novel: NDArray[np.bool_] | None = None,
) -> Any:
    """Return a frame with the columns size, labels, `novel` if given, and a column per class if `mask` is given.

    It is a pandas frame if there is an index, else a polars frame.
    """
    columns: dict[str, Any] = {"size": sizes, "labels": labels} | ({} if novel is None else {"novel": novel})
    for k, name in enumerate(classes if mask is not None else ()):
        if str(name) in columns:
            what = f"Expected class names other than 'size' and 'labels' for columns of their own, got {name!r}"
            raise InputError(what, "leave classes=True out, or rename the class")
        columns[str(name)] = mask[:, k] if mask is not None else None
    if index is not None:
        import pandas

        columns["labels"] = pandas.Series(labels, index=index, dtype=object)
        return pandas.DataFrame(columns, index=index)
    import polars

    kind = polars.Int64 if isinstance(classes[0], int) else polars.String
    return polars.DataFrame(columns, schema_overrides={"labels": polars.List(kind)})


def positions_of(key: Any, index: Any) -> Any:
    """Return the position of a label in a pandas index, or the positions of several labels, as `loc` of pandas does.

    Raises:
        InputError: there is no index, or a label is not in it.

    >>> import pandas
    >>> photos = pandas.Index(["a.png", "b.png", "c.png"])
    >>> positions_of("b.png", photos), positions_of(slice("b.png", None), photos)
    (1, array([1, 2]))
    """
    if index is None:
        what = f"Expected sets with an index, got sets without one for the label {key!r}"
        raise InputError(what, "pass a position, sets[0], or predict a pandas frame")
    import pandas

    try:
        found = pandas.Series(np.arange(len(index)), index=index).loc[key]
    except Exception as error:  # pandas raises several types of errors for unknown labels
        shown = ", ".join(map(repr, index[:4].tolist())) + (", …" if len(index) > 4 else "")
        what = f"Expected a label of the index ({shown}), got {key!r}"
        raise InputError(what, "pass a label, or a position, sets[0]") from error
    return found.to_numpy() if isinstance(found, pandas.Series) else int(found)


def like_rows(values: Vector, rows: Rows, classes: Classes) -> Any:
    """Convert (n, K) or (n,) numbers to a frame or series of the library that `rows` came from; NumPy stays NumPy.

    A pandas result has the index of the rows, and frames have the class names as columns.
    """
    if rows.library == "pandas":
        import pandas

        named: Any = pandas.Series if values.ndim == 1 else partial(pandas.DataFrame, columns=list(classes))
        return named(values, index=rows.index)
    if rows.library == "polars":
        import polars

        return polars.Series(values) if values.ndim == 1 else polars.DataFrame(values, [str(name) for name in classes])
    return values


def frame(columns: dict[str, Any], index: Any = None) -> Any:
    """Return a pandas frame if there is an index, else a polars frame."""
    if index is not None:
        import pandas

        return pandas.DataFrame(columns, index=index)
    import polars

    return polars.DataFrame(columns)
