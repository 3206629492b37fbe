"""The command line in a subprocess."""

import subprocess
import sys

PIPPIN = [sys.executable, "-m", "pippin.cli"]


def run(*args, folder, **options):
    """Run a pippin command in a subprocess."""
    return subprocess.run([*PIPPIN, *args], cwd=folder, capture_output=True, text=True, **options)
