"""Tables with named columns in every library, and objects that only have one protocol of data frames."""

import narwhals
import pandas as pd
import polars as pl
import pyarrow as pa
import xarray as xr


class OnlyArrowStream:
    """Table that only has the Arrow C stream, like a relation of a database."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class OnlyInterchange:
    """Table that only has `__array__` and the interchange protocol of data frames."""

    def __init__(self, table):
        self._table = table

    def __array__(self, dtype=None, copy=None):
        return self._table.__array__(dtype)

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self._table.__dataframe__(nan_as_null, allow_copy)


def arrow(values, names):
    return pa.table({name: values[:, k] for k, name in enumerate(names)})


def data_array(values, names):
    return xr.DataArray(values, dims=["index", "columns"], coords={"columns": list(names)})


# Functions of a matrix and the names of its columns.
TABLES = {
    "pandas": lambda values, names: pd.DataFrame(values, columns=list(names)),
    "pandas, Arrow types": lambda values, names: arrow(values, names).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda values, names: pl.DataFrame(values, schema=list(names)),
    "pyarrow": arrow,
    "pyarrow batch": lambda values, names: arrow(values, names).combine_chunks().to_batches()[0],
    "pyarrow reader": lambda values, names: arrow(values, names).to_reader(),
    "xarray": data_array,
    "xarray data set": lambda values, names: xr.Dataset({n: ("object", values[:, k]) for k, n in enumerate(names)}),
    "narwhals of pandas": lambda values, names: narwhals.from_native(TABLES["pandas"](values, names)),
    "narwhals of polars": lambda values, names: narwhals.from_native(TABLES["polars"](values, names)),
    "narwhals of pyarrow": lambda values, names: narwhals.from_native(arrow(values, names)),
    "only an Arrow stream": lambda values, names: OnlyArrowStream(arrow(values, names)),
    "only interchange": lambda values, names: OnlyInterchange(arrow(values, names)),
}
