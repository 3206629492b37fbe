"""The site as the tests build it: every page, the gallery not executed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = ("answers", "__pycache__")
# A build holds what it makes to the end: looking for garbage would be a sixth of its time.
BUILD = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"


def build_site(folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds it into folder/site from a copy of docs/, so that pages that somebody has executed stay as they are."""
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns(*MADE))
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    quick = ["-D", "plot_gallery=0", "-D", "toc_object_entries=0"]  # pages without a list of their objects
    command = ["-c", BUILD, "-W", "--keep-going", "-q", *quick, "-b", "html", "-d", "doctrees"]
    return subprocess.run(
        [sys.executable, *command, "docs", "site"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
