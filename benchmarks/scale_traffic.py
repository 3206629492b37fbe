"""Bytes that pass a Dask scheduler, per partition: tables are calibrated, evaluated and predicted by workers.

`scale.py` prints them. The scheduler is a process of its own that counts what its sockets read and write, the
heartbeats of workers included. Every partition is a small table (which is removed): what the scheduler passes on
does not follow from the rows, since scores and sets go from the workers to the client directly.
"""

import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars
from distributed import Client

import pippin
import pippin.dask

SCHEDULER = """
import asyncio
from distributed import Scheduler
from tornado.iostream import IOStream

passed = [0, 0]
read, write = IOStream.read_from_fd, IOStream.write_to_fd

def reads(self, buffer):
    n = read(self, buffer)
    passed[0] += n or 0
    return n

def writes(self, data):
    n = write(self, data)
    passed[1] += n
    return n

IOStream.read_from_fd, IOStream.write_to_fd = reads, writes

async def serve():
    async with Scheduler(port=0, dashboard_address=None) as scheduler:
        scheduler.passed = passed
        print(scheduler.address, flush=True)
        await scheduler.finished()

asyncio.run(serve())
"""


@contextmanager
def counting_cluster(workers: int):
    """A client of a scheduler that counts, and so many workers."""
    with ExitStack() as stack:

        def started(*words: str) -> subprocess.Popen:
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen([sys.executable, *words], text=True, **pipes)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        address = started("-c", SCHEDULER).stdout.readline().strip()
        for _ in range(workers):
            started("-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard")
        client = stack.enter_context(Client(address))
        client.wait_for_workers(workers)
        yield client


def passed(client: Client) -> np.ndarray:
    """Bytes that the scheduler has read and written."""
    return np.array(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.passed)))


def make_tables(folder: Path, table: polars.DataFrame, partitions: int) -> None:
    """All alike."""
    folder.mkdir(parents=True)
    for i in range(partitions):
        table.write_parquet(folder / f"{i:05}.parquet")


def measure(client: Client, scan: Any, partitions: int, rows: int) -> None:
    """One line per command: what it reads and writes of every partition."""
    predictor = None

    def calibrate() -> None:
        nonlocal predictor
        predictor = pippin.dask.calibrate(scan)

    def predict() -> None:
        command: Any = import_module("pippin.cli.predict")
        command.PART = rows
        task = command.SetsTask((".arrow",), 0, False, {})
        for _ in command._parts_from_cluster(predictor, scan, task):
            pass

    works = {
        "calibrate": calibrate,
        "evaluate": lambda: pippin.dask.evaluate(predictor, scan),
        "predict": predict,
    }
    for name, work in works.items():
        before = passed(client)
        work()
        read, wrote = (passed(client) - before) / partitions
        print(f"| {partitions:,} | {name} | {read:,.0f} | {wrote:,.0f} |", flush=True)


def measure_traffic(table: polars.DataFrame, counts: list[int], folder: Path) -> None:
    """For every number of partitions, with two workers."""
    print("\n| partitions | | bytes the scheduler reads of each | writes |\n|---|---|---|---|")
    with counting_cluster(2) as client:
        for partitions in counts:
            make_tables(folder, table, partitions)
            measure(client, pippin.scan(folder), partitions, len(table))
            shutil.rmtree(folder)
