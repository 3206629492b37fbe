"""Subprocesses that kill themselves by a signal (SIGKILL by default) at a chosen event rather than at a time.

An event is the n-th call of a function, before or after it, or the n-th write to a file, after half of the data.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path
from select import select

AT_EVENT = """
import builtins, importlib, os, signal, sys

event, number, after, code, signal_number = sys.argv[1:6]
number, after = int(number), after == "after"
calls = 0


def end():
    os.kill(os.getpid(), int(signal_number))


def counted(function):
    def call(*given, **named):
        global calls
        calls += 1
        mine = calls
        if mine == number and not after:
            end()
        found = function(*given, **named)
        if mine == number and after:
            end()
        return found

    return call


class HalfWritten:
    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def __enter__(self):
        self.stream.__enter__()
        return self

    def __exit__(self, *reason):
        return self.stream.__exit__(*reason)

    def write(self, data):
        global calls
        calls += 1
        if calls == number:
            self.stream.write(data[: len(data) // 2])
            self.stream.flush()
            end()
        return self.stream.write(data)


if event == "write":
    real_open = builtins.open
    builtins.open = lambda path, mode="r", *given, **named: (
        HalfWritten(real_open(path, mode, *given, **named)) if mode == "wb" else real_open(path, mode, *given, **named)
    )
else:
    module, _, path = event.partition(":")
    *owners, name = path.split(".")
    owner = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    setattr(owner, name, counted(getattr(owner, name)))
sys.argv = ["pippin", *sys.argv[6:]]
exec(compile(code, "<child>", "exec"))
"""
COMMAND = "from pippin.cli import main\nmain()"


def run_until(event, number, *args, after=False, code=COMMAND, folder=None, by=9):
    """Run code (by default the command line) until the event; return the completed process."""
    when = "after" if after else "before"
    command = [sys.executable, "-c", AT_EVENT, event, str(number), when, code, str(by), *map(str, args)]
    mark = uuid.uuid4().hex
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PIPPIN_TEST": mark}, check=False
    )
    wait_for_workers(mark)
    return done


def wait_for_workers(mark):
    """Wait until the worker processes of a killed process have ended."""
    while found := processes_with(mark):
        with suppress(ProcessLookupError):  # ended in the meantime
            process = os.pidfd_open(found[0])
            try:
                select([process], [], [])
            finally:
                os.close(process)


def processes_with(mark):
    """Return live processes whose environment contains the mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            dead = (process / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
            if not dead and f"PIPPIN_TEST={mark}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


READY = """
import json, os, sys
from importlib import import_module
from support.killed_processes import AT_EVENT, wait_for_workers

for module in json.loads(sys.argv[1]):
    import_module(module)
for line in sys.stdin:
    events, code, args, folder, environment, errors = json.loads(line)
    ends = []
    for event, number, after in events:
        mark = f"{os.getpid()}-{len(ends)}"
        child = os.fork()
        if child == 0:
            os.environ.clear()
            os.environ.update(environment, PIPPIN_TEST=mark)
            os.chdir(folder)
            nothing = os.open(os.devnull, os.O_RDWR)
            for own, its in ((nothing, 0), (nothing, 1), (os.open(errors, os.O_WRONLY | os.O_APPEND), 2)):
                os.dup2(own, its)
            sys.argv = ["-c", event, str(number), after, code, "9", *args]
            exec(compile(AT_EVENT, "<event>", "exec"), {"__name__": "__main__"})
            os._exit(0)
        ends.append(os.waitpid(child, 0)[1])
        wait_for_workers(mark)
    print(json.dumps(ends), flush=True)
"""


NEVER = ("write", 10**9, "before")


def killed_in_turn(events, *args, modules, code=COMMAND):
    """Run code (by default the command line) once for each (event, number, "before" or "after").

    Returns the exit status of each run: 9 if it was killed.
    """
    return killed_with_stderr(events, *args, modules=modules, code=code)[0]


def killed_with_stderr(events, *args, modules, code=COMMAND, folder=None):
    """Like `killed_in_turn`, but also return all lines of standard error.

    A fork server imports the modules once, which takes long, and forks for every event.
    """
    ready, environment = _ready(tuple(modules)), {**os.environ, "PYTHONPATH": _paths()}
    with tempfile.NamedTemporaryFile("r") as errors:
        request = [events, code, list(map(str, args)), str(folder or Path.cwd()), environment, errors.name]
        print(json.dumps(request), file=ready.stdin, flush=True)
        ends = ready.stdout.readline()
        lines = errors.read().splitlines()
    assert ends, lines
    return json.loads(ends), lines


@cache
def _ready(modules):
    """Start a fork server that has imported the modules; it ends with this process."""
    command, pipe = [sys.executable, "-c", READY, json.dumps(modules)], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**os.environ, "PYTHONPATH": _paths()})
    atexit.register(process.communicate)
    return process


def _paths():
    return os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
