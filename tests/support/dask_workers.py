"""Dask cluster whose worker processes are started and killed by the test, at events rather than times.

Killed workers are not replaced automatically. A fork server imports the modules of a worker once, which takes long, and
forks for each worker.
"""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import dask
from distributed import Client, LocalCluster

FORKS = """
import asyncio, os, signal, sys
import numba, polars, pippin.cli.predict, pippin.dask, support.dask_workers
from distributed import Worker

async def work(address):
    async with Worker(address, nthreads=1, dashboard=False) as worker:
        await worker.finished()

children = []
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        asyncio.run(work(line.strip()))
        os._exit(0)
    children.append(child)
    print(child, flush=True)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@contextmanager
def forks():
    """Start the fork server of workers."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", FORKS], text=True, env=environment, **pipes) as server:
        yield server  # ends its workers and itself when its standard input is closed


class Workers:
    """Client of the cluster, and its workers in the order in which they joined."""

    def __init__(self, client, forks):
        self.client, self.forks, self.joined, self.killed = client, forks, [], []

    def join(self):
        """Add a worker, and wait until it has joined."""
        print(self.client.scheduler.address, file=self.forks.stdin, flush=True)
        self.joined.append(int(self.forks.stdout.readline()))
        self.client.wait_for_workers(len(self.joined) - len(self.killed))

    def victim(self):
        """Return the process id of the oldest live worker, which the caller kills."""
        self.killed.append(self.joined[len(self.killed)])
        return self.killed[-1]

    def kill(self):
        """Kill the oldest worker, and wait until the scheduler has noticed; otherwise Dask may retry it for 30 s."""
        os.kill(self.victim(), signal.SIGKILL)
        while len(self.client.nthreads()) > len(self.joined) - len(self.killed):
            pass


@contextmanager
def workers_by_hand(forks):
    """Start a cluster without workers."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 100}),
        LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as made,
        Client(made) as client,
    ):
        yield Workers(client, forks)


class Killing:
    """Function that kills a process at its first call in any process, then runs."""

    def __init__(self, function, process, mark):
        self.function, self.process, self.mark = function, process, mark

    def __call__(self, *args):
        with suppress(FileExistsError):
            self.mark.touch(exist_ok=False)
            os.kill(self.process, signal.SIGKILL)
        return self.function(*args)
