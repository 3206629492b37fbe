"""`import pippin` loads NumPy only."""

import subprocess
import sys

PROBE = """
import sys
import pippin
heavy = {"numba", "llvmlite", "torch", "pandas", "polars", "matplotlib", "scipy", "sklearn", "rich", "typer"}
print(sorted(heavy & set(sys.modules)))
"""


def test_import_loads_nothing_heavier_than_numpy():
    """`import pippin` imports neither numba, torch, pandas or matplotlib, nor the command line."""
    printed = subprocess.run([sys.executable, "-c", PROBE], check=True, capture_output=True, text=True).stdout
    assert printed == "[]\n"


def test_small_work_does_not_load_the_compiler():
    """Small inputs are computed in NumPy, without loading numba."""
    code = (
        "import sys, pippin; d = pippin.load_example();"
        "p = pippin.calibrate(d.probs[:2000], d.labels[:2000]); p.predict(d.probs[2000:]);"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_much_work_loads_the_compiler():
    """Repeated calls load the compiled loops."""
    code = (
        "import sys, pippin; d = pippin.load_example();"
        "[pippin.calibrate(d.probs, d.labels) for _ in range(20)];"
        "assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
