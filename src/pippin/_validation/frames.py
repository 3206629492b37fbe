"""Data frames of any library: conversion, column names and row index.

Frames that NumPy can convert, such as pandas, polars and narwhals, are not changed here. Three other types are
converted to frames, so that columns always keep their names: tables that list their names elsewhere, as in pyarrow,
tables that only have an Arrow C stream, and data sets of xarray.
"""

from collections.abc import Hashable
from numbers import Integral
from typing import Any

import numpy as np

from pippin._runtime.errors import InputError

Names = tuple[str | int, ...]


def as_frame(values: Any) -> Any:
    """Convert a table whose column names NumPy would drop to a data frame; return anything else unchanged.

    Raises:
        InputError: the rows are not in memory, or the table has several dimensions.
    """
    if isinstance(values, np.ndarray | list | tuple):
        return values
    if type(values).__name__ == "LazyFrame":
        raise InputError("Expected rows in memory, got a LazyFrame", "pass its result, frame.collect()")
    kind = type(values)  # look at the type, since attributes of a frame may be columns
    if hasattr(kind, "data_vars"):
        return _of_dataset(values)
    if not hasattr(kind, "__arrow_c_stream__") or _is_xarray(values):
        return values
    has_names = _listed_names(values) is not None or not hasattr(kind, "schema")
    return values if hasattr(kind, "__array__") and has_names else _of_arrow(values)


def _of_dataset(values: Any) -> Any:
    """Convert an xarray Dataset with a variable per column to a pandas frame."""
    if len(values.sizes) != 1:
        what = f"Expected a variable per class with one dimension, got a Dataset with {len(values.sizes)} dimensions"
        raise InputError(what, "pass one of its variables, dataset['probs']")
    return values.to_pandas()


def _of_arrow(values: Any) -> Any:
    """Read an Arrow C stream of a table as a polars frame; return other streams unchanged."""
    import polars

    try:
        return polars.DataFrame(values)
    except (polars.exceptions.PolarsError, TypeError, ValueError):
        return values


def _is_xarray(values: Any) -> bool:
    """Return True for data of xarray, whose attributes may have the names of its dimensions, such as columns."""
    return hasattr(type(values), "sizes") and hasattr(type(values), "indexes")


def _listed_names(values: Any) -> list[Any] | None:
    """Return the attribute `columns` as a list if it holds names; None if it holds arrays, as in pyarrow."""
    columns = getattr(values, "columns", None)
    if columns is None or callable(columns):
        return None
    listed = list(columns)
    return listed if all(isinstance(column, Hashable) for column in listed) else None


def column_names(values: Any) -> Names | None:
    """Return the names of the columns of a frame, all as whole numbers or all as text; None for an array.

    >>> import pandas as pd
    >>> column_names(pd.DataFrame([[0.5, 0.5]], columns=[0.0, 1.0])), column_names([[0.5, 0.5]])
    ((0, 1), None)
    """
    if isinstance(values, np.ndarray | list | tuple):
        return None
    if _is_xarray(values):
        dimensions = tuple(values.sizes)
        return index_names(values.indexes.get(dimensions[1]) if len(dimensions) == 2 else None)
    listed = _listed_names(values)
    if listed is None and hasattr(values, "__dataframe__"):
        listed = list(values.__dataframe__().column_names())
    return index_names(listed)


def index_names(index: Any) -> Names | None:
    """Convert a list or index of names to a tuple, all whole numbers or all text; None stays None.

    >>> index_names([True, False]), index_names(["crop", 7])
    ((1, 0), ('crop', '7'))
    """
    if index is None:
        return None
    names = [name.item() if isinstance(name, np.generic) else name for name in index]
    if all(isinstance(name, Integral) or (isinstance(name, float) and name.is_integer()) for name in names):
        return tuple(map(int, names))
    return tuple(map(str, names))


def row_index(values: Any) -> Any:
    """Return the index of a pandas frame or series, or of the first dimension of data of xarray; else None."""
    if isinstance(values, np.ndarray | list | tuple):
        return None
    if _is_xarray(values):
        return values.indexes.get(next(iter(values.sizes), None))
    return values.index if hasattr(values, "iloc") else None


def row_names(row: Any) -> Names | None:
    """Return the names of the entries of one row: the index of a pandas Series or of a DataArray; None for an array."""
    index = row_index(row)
    return None if index is None or len(np.shape(row)) != 1 else index_names(index)
