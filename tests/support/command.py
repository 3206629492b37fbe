"""The command line in a process of its own."""

import subprocess
import sys

PIPPIN = [sys.executable, "-m", "pippin.cli"]


def run(*args, folder, **options):
    """A real process."""
    return subprocess.run([*PIPPIN, *args], cwd=folder, capture_output=True, text=True, **options)
