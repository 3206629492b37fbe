"""Streams and monitors killed -9 at random events and resumed: python tests/support/killed_streams.py KILLS.

Every child process continues from the two state files, and kills itself at a random write (after half of the data),
sync, rename, update or label. The final states must equal those of an uninterrupted run, byte by byte.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.killed_processes import AT_EVENT

STEPS = """
import sys, numpy as np, pippin
from pathlib import Path
folder, steps, data = Path(sys.argv[1]), int(sys.argv[2]), pippin.load_example()
kept = folder / "monitor.json", folder / "stream.json"
predictor = pippin.calibrate(data.probs[:300], data.labels[:300], "aps", seed=0)
monitor = pippin.online.Monitor.load(kept[0]) if kept[0].exists() else pippin.online.Monitor(predictor, seed=0)
stream = pippin.online.Stream.load(kept[1]) if kept[1].exists() else pippin.online.Stream(predictor, "grow", seed=0)
while min(monitor.n_rows, stream.n_learnt) < steps:
    if monitor.n_rows < steps:
        monitor.update(data.probs[300 + monitor.n_rows], data.labels[300 + monitor.n_rows])
        if monitor.n_rows % 10 == 0:
            monitor.save(kept[0])
    if stream.n_learnt < steps:
        stream.learn(stream.predict_one(data.probs[300 + stream.n_learnt]), data.labels[300 + stream.n_learnt])
        if stream.n_learnt % 10 == 0:
            stream.save(kept[1])
"""
EVENTS = ("write", "os:replace", "os:fsync", "pippin:Monitor.update", "pippin:Stream.learn")


def run(folder: Path, event: str, number: int, after: bool, steps: int) -> int:
    """Run a child process until the event; return its exit status, 9 if it was killed."""
    child = os.fork()
    if child == 0:
        when = "after" if after else "before"
        sys.argv = ["-c", event, str(number), when, STEPS, "9", str(folder), str(steps)]
        try:
            exec(compile(AT_EVENT, "<event>", "exec"), {"__name__": "__main__"})
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def main(kills: int, steps: int = 2000) -> None:
    """Print the number of kills, and a comparison of both states with those of an uninterrupted run."""
    import pippin

    rng, killed = np.random.default_rng(0), 0
    with tempfile.TemporaryDirectory() as place:
        whole, broken = Path(place) / "whole", Path(place) / "broken"
        whole.mkdir()
        broken.mkdir()
        sys.argv = ["-c", str(whole), str(steps)]
        exec(compile(STEPS, "<steps>", "exec"), {})  # compiles the loops before forking
        while killed < kills:
            event = EVENTS[int(rng.integers(len(EVENTS)))]
            number = int(rng.integers(1, 40 if "pippin" in event else 5))
            killed += run(broken, event, number, bool(rng.integers(2)), steps) == 9
            if (broken / "monitor.json").exists() and pippin.online.Monitor.load(
                broken / "monitor.json"
            ).n_rows >= steps:
                break
        run(broken, "write", 10**9, False, steps)
        same = [(whole / name).read_bytes() == (broken / name).read_bytes() for name in ("monitor.json", "stream.json")]
        ended = pippin.online.Monitor.load(broken / "monitor.json")
    print(f"{killed} kills; the same bytes as without: monitor {same[0]}, stream {same[1]}; {ended}")
    sys.exit(not all(same))


if __name__ == "__main__":
    main(int(sys.argv[1]))
