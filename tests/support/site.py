"""Build of the site for tests, without executing the gallery."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = ("answers", "__pycache__")
# Without garbage collection, which would take a sixth of the time, since a build keeps all its objects.
BUILD = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"


def build_site(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site into folder/site from a copy of docs/, so that executed pages there are not changed."""
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns(*MADE))
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    quick = ["-D", "plot_gallery=0", "-D", "toc_object_entries=0"]  # no table of contents of objects
    command = ["-c", BUILD, "-W", "--keep-going", "-q", *quick, "-b", "html", "-d", "doctrees"]
    return subprocess.run(
        [sys.executable, *command, "docs", "site"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
