"""Sixteen entries are read at once, yet none outside the array."""

import subprocess
import sys

GUARDED = """
import ctypes, itertools, mmap, sys
import numpy as np
import pippin
from pippin._engine.compiled import engine
from pippin._engine.protocol import Bounds
from pippin._theory.scores import coefficients

page = mmap.PAGESIZE
memory = mmap.mmap(-1, 3 * page)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for closed in (address, address + 2 * page):
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(closed), page, 0) == 0
for n_classes, n, at_end in itertools.product((2, 7, 12, 16, 25, 40, 70), (1, 2, 3, 17, 33), (False, True)):
    if 4 * n * n_classes > page:
        continue
    start = 2 * page - 4 * n * n_classes if at_end else page
    probs = np.frombuffer(memory, np.float32, n * n_classes, start).reshape(n, n_classes)
    probs[:] = 1 / n_classes
    first, last = probs[0], probs[-1]
    probs.flags.writeable = False
    labels = np.zeros(n, dtype=np.int64)
    labels.flags.writeable = False
    for score in ("ip", "margin", "pip", "socop"):
        c = coefficients(pippin.parse_score(score), n_classes)
        assert engine.label_places(probs, labels, c, np.zeros(n))[2] == 0
        assert engine.members(probs, c, Bounds(np.ones((1, 1))), np.zeros(n), np.zeros(n, dtype=np.int64))[1] == 0
        engine.one_set(first, c[:], 0.0, 1.0)
        engine.one_set(last, c[:], 0.0, 1.0)
print("nothing was read around the array")
sys.stdout.flush()
"""


def test_nothing_is_read_around_the_array():
    """The array stands at either end of a page between two that nobody may read: whoever does is killed."""
    done = subprocess.run([sys.executable, "-c", GUARDED], capture_output=True, text=True, check=False)
    assert done.stdout == "nothing was read around the array\n", (done.returncode, done.stderr)
