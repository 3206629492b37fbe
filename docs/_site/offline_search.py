"""Search without a server: browsers do not let a file fetch another, so a script contains the texts of all pages.

Sphinx loads its index as a script and fetches pages only for the excerpts below the results. On a server it still
does.
"""

import html
import json
import re
from pathlib import Path
from typing import Any

NAME = "search-texts.js"
SCRIPT = """"use strict";
const texts = TEXTS;
const fetched = window.fetch;
if (location.protocol === "file:") {
  window.fetch = (address, ...more) => {
    const text = texts[String(address).replace(/^\\.\\//, "").replace(/\\.html$/, "")];
    return text === undefined ? fetched(address, ...more)
      : Promise.resolve(new Response(`<div role="main"><p>${text}</p></div>`));
  };
}
"""


# Links, scripts and download links are not part of the text.
UNREAD = re.compile(
    r'<a class="headerlink".*?</a>|<(script|style).*?</\1>|<div class="sphx-glr-download.*?</div>', re.DOTALL
)

texts: dict[str, str] = {}


def keep_text(app: Any, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Store the text of a page, and load all texts on the search page."""
    if page == "search":
        context["metatags"] = f'{context.get("metatags", "")}\n<script src="{NAME}"></script>'
    elif tree is not None:  # not a generated page
        body = UNREAD.sub("", context["body"])
        words = html.unescape(re.sub(r"<[^>]+>", " ", body)).split()
        texts[page] = html.escape(" ".join(words), quote=False)


def write_texts(app: Any, error: Exception | None) -> None:
    """Write the script, with the texts of pages that were not rebuilt."""
    path = Path(app.outdir, NAME)
    if error is None and app.builder.format == "html":
        before = re.search(r"^const texts = (.*);$", path.read_text("utf-8"), re.MULTILINE) if path.exists() else None
        known = {**(json.loads(before.group(1)) if before else {}), **texts}
        kept = {page: text for page, text in known.items() if page in app.env.found_docs}
        path.write_text(SCRIPT.replace("TEXTS", json.dumps(kept, ensure_ascii=False, sort_keys=True)), "utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", keep_text)
    app.connect("build-finished", write_texts)
    return {"parallel_read_safe": True}
