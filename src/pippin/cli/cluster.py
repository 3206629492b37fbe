"""The work of a command on a Dask cluster."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pippin._runtime.errors import InputError
from pippin.cli.options import an_option

if TYPE_CHECKING:
    from pippin.tables.columns import Layout
    from pippin.tables.scanning import Scan

LOCAL = "local"
Scheduler = Annotated[
    str | None,
    an_option(
        "A Dask scheduler whose workers read the tables and do the work, such as tcp://host:8786; local starts "
        "one on this machine.",
        metavar="ADDRESS",
    ),
]


def tables_of(paths: Sequence[Path], layout: "Layout | None") -> "Scan":
    """The tables that a cluster is to read, as this process sees them.

    Raises:
        InputError: the data are no tables.
    """
    from pippin.tables.columns import Layout
    from pippin.tables.scanning import scan_tables

    return scan_tables(list(paths), layout or Layout())


@contextmanager
def on_cluster(address: str, paths: Sequence[Path], layout: "Layout | None") -> "Iterator[Scan]":
    """The tables, while whatever Dask computes is computed there."""
    tables = tables_of(paths, layout)
    with connected(address):
        yield tables


@contextmanager
def connected(address: str | None) -> Iterator[bool]:
    """Whatever Dask computes is computed there, which is True; False without an address.

    Raises:
        InputError: no scheduler answers.
    """
    if address is None:
        yield False
        return
    from pippin._runtime.errors import need

    need("--scheduler", "dask", "dask", "distributed")
    from distributed import Client, KilledWorker, LocalCluster

    with ExitStack() as stack:
        if address == LOCAL:
            made = stack.enter_context(LocalCluster(threads_per_worker=1, dashboard_address=None, silence_logs=50))
            stack.enter_context(Client(made))
        else:
            try:
                stack.enter_context(Client(address))
            except (OSError, ValueError) as error:
                raise InputError(
                    f"No Dask scheduler answers at {address}", "check the address, or pass local"
                ) from error
        try:
            yield True
        except KilledWorker as error:
            raise InputError(
                "Workers of the cluster ended again and again over the same rows",
                "give them more memory, or raise distributed.scheduler.allowed-failures, and run this again",
            ) from error
