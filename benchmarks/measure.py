"""Clocks and memory: medians of interleaved repeats, peaks of resident memory, first calls."""

import ctypes
import datetime
import gc
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import pippin

Work = Callable[[], Any]

FIRST_CALL = """
import json, time
t0 = time.perf_counter(); import pippin
t1 = time.perf_counter(); data = pippin.load_example()
t2 = time.perf_counter(); pippin.calibrate(data.probs[:1998], data.labels[:1998])
t3 = time.perf_counter(); pippin.warm_up()
t4 = time.perf_counter()
print(json.dumps({"import": t1 - t0, "calibrate": t3 - t2, "warm_up": t4 - t3}))
"""


def provenance() -> dict[str, Any]:
    """Return the version, commit, date and host of a run, for the heading of its tables."""
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # git is not installed
        commit = ""
    return {
        "pippin": pippin.__version__,
        "commit": commit or None,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
    }


def _processor() -> str:
    """Return the name of the processor's model where the system has it, or else of its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def timed(work: Work) -> float:
    """Seconds that one call takes."""
    start = perf_counter()
    work()
    return perf_counter() - start


def interleaved(works: dict[str, Work], repeats: int) -> dict[str, float]:
    """The median seconds of each; every round runs all of them, so that noise hits all alike."""
    rounds = [{name: timed(work) for name, work in works.items()} for _ in range(repeats)]
    return {name: median(times[name] for times in rounds) for name in works}


def many(work: Work, seconds: float) -> Work:
    """The same call repeated for about so many seconds, to time what is short; `calls` says how often."""
    work()
    calls = max(1, int(seconds / timed(work)))

    def repeat() -> None:
        for _ in range(calls):
            work()

    repeat.calls = calls  # type: ignore[attr-defined]  # a function may hold a number
    return repeat


def per_call(works: dict[str, Work], repeats: int, seconds: float) -> dict[str, float]:
    """The median seconds of one call among many, interleaved."""
    batches = {name: many(work, seconds) for name, work in works.items()}
    return {name: total / batches[name].calls for name, total in interleaved(batches, repeats).items()}


def extra_memory(work: Work) -> tuple[int, str]:
    """Bytes by which the peak of resident memory rose during the call, and how that was read.

    Numba's arrays are not seen by tracemalloc, so the kernel is asked. What earlier calls
    freed is given back first, or it would be used again unseen.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again at the present size
        before = _status("VmRSS")
        work()
        return max(0, _status("VmHWM") - before), "VmHWM, reset before each call"
    except (OSError, AttributeError):
        unit = 1 if sys.platform == "darwin" else 1024
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        work()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before, "ru_maxrss, growth of the peak"


def first_calls(compile_too: bool) -> dict[str, dict[str, float]]:
    """Seconds of a fresh process: with an empty cache of compiled loops, then with that cache filled."""
    if not compile_too:
        return {"from disk": fresh_process("-c", FIRST_CALL)}
    with tempfile.TemporaryDirectory() as cache:
        return {name: fresh_process("-c", FIRST_CALL, NUMBA_CACHE_DIR=cache) for name in ("empty cache", "from disk")}


def fresh_process(*arguments: str, **environment: str) -> Any:
    """What another Python process prints as JSON."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def slope(sizes: list[int], seconds: list[float]) -> float:
    """The exponent b of seconds ~ sizes^b."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"The kernel tells no {key}.")
