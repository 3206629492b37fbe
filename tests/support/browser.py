"""A real browser for the tests of the report."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


def find_browser() -> str:
    """The path of an installed Chromium or Chrome."""
    if Path("/usr/bin/chromium").exists():
        return "/usr/bin/chromium"
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise RuntimeError(
            "The tests of the report need a browser: install Chromium (Debian: apt-get install chromium)."
        )
    return found


@contextmanager
def open_browser() -> Iterator[Browser]:
    """The browser, without a window; however long it takes to start on a busy machine."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS), timeout=0)
        try:
            yield browser
        finally:
            browser.close()
