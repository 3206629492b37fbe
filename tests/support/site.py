"""The site as the tests build it: every page, the gallery not executed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = ("answers", "__pycache__")


def build_site(folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds it into folder/site from a copy of docs/, so that pages that somebody has executed stay as they are."""
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns(*MADE))
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    quick = ["-D", "plot_gallery=0", "-D", "toc_object_entries=0"]  # pages without a list of their objects
    command = ["-m", "sphinx", "-W", "--keep-going", "-q", *quick, "-b", "html", "-d", "doctrees"]
    return subprocess.run(
        [sys.executable, *command, "docs", "site"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
