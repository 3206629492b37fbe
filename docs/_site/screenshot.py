"""Take the screenshots of the report: `python docs/_site/screenshot.py out/report.html` after `make run`."""

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

STATIC = Path(__file__).parents[1] / "_static"


def main(report: Path) -> None:
    """Write the top of the report in light and dark mode as small WebP images."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1100, "height": 1160}, color_scheme=scheme)  # type: ignore[arg-type]  # "light" or "dark"
            page.goto(report.resolve().as_uri())
            image = Image.open(io.BytesIO(page.screenshot()))
            image.save(STATIC / f"report-{scheme}.webp", quality=70, method=6)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
