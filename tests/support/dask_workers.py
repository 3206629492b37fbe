"""A Dask cluster whose workers are processes that a test starts and ends itself, at events and at no hour.

Nobody replaces a worker that is killed but the test. One process imports what a worker needs, which
takes long, and forks whenever one is to join.
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
    """A process that makes workers."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", FORKS], text=True, env=environment, **pipes) as made:
        yield made  # which ends its workers and itself when nobody writes to it any more


class Workers:
    """The cluster: who asks it, and its workers in the order in which they joined."""

    def __init__(self, client, forks):
        self.client, self.forks, self.joined, self.killed = client, forks, [], []

    def join(self):
        """One more; it is there when this ends."""
        print(self.client.scheduler.address, file=self.forks.stdin, flush=True)
        self.joined.append(int(self.forks.stdout.readline()))
        self.client.wait_for_workers(len(self.joined) - len(self.killed))

    def victim(self):
        """The process of the worker that joined first, of those that live; it is to be killed now."""
        self.killed.append(self.joined[len(self.killed)])
        return self.killed[-1]

    def kill(self):
        """Ends that worker; the scheduler knows it when this ends. Otherwise Dask may knock at its door for 30 s."""
        os.kill(self.victim(), signal.SIGKILL)
        while len(self.client.nthreads()) > len(self.joined) - len(self.killed):
            pass


@contextmanager
def workers_by_hand(forks):
    """A cluster without workers, until they join."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 100}),
        LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as made,
        Client(made) as client,
    ):
        yield Workers(client, forks)


class Killing:
    """A function that ends a process when it is called first, be it the one that calls it or another."""

    def __init__(self, function, process, mark):
        self.function, self.process, self.mark = function, process, mark

    def __call__(self, *args):
        with suppress(FileExistsError):
            self.mark.touch(exist_ok=False)
            os.kill(self.process, signal.SIGKILL)
        return self.function(*args)
