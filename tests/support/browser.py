"""Chromium for tests of the report and the site."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


def find_browser() -> str:
    """Return the path of an installed Chromium or Chrome."""
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
    """Start a headless browser, without a time limit."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS), timeout=0)
        try:
            yield browser
        finally:
            browser.close()


class Tabs:
    """Pool of browser tabs that records console messages, errors and network requests of their pages.

    Tabs are reused, because a new process takes longer to start than most pages to load.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser, self.complaints = browser, list[str]()
        self.settings, self.free = dict[Page, Any](), list[Page]()

    def take(self, width: int, height: int, color_scheme: Any = "light", **settings: Any) -> Page:
        """Return an empty page of this size."""
        page = next((page for page in self.free if self.settings[page] == settings), None) or self._open(settings)
        self.free = [other for other in self.free if other is not page]
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(media="null", color_scheme=color_scheme)
        return page

    def leave(self, page: Page) -> None:
        """Return a page to the pool, emptied and with the mouse at the origin."""
        page.mouse.move(0, 0)
        page.goto("about:blank")
        self.free.append(page)

    def new_complaints(self) -> list[str]:
        """Return and clear the recorded complaints."""
        complaints, self.complaints = self.complaints, []
        return complaints

    def _open(self, settings: dict[str, Any]) -> Page:
        context = self.browser.new_context(**settings)
        context.set_default_timeout(0)
        context.route("**/*", self._on_request)
        page = context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.settings[page] = settings
        return page

    def _on_request(self, route: Route) -> None:
        if not route.request.url.startswith(("file:", "data:")):
            self.complaints.append(route.request.url)
        route.continue_() if route.request.url.startswith("file:") else route.abort()
