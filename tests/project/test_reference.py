"""The site builds without warnings, and its reference has every public name, attribute and argument."""

import re
import zlib
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

import pippin
from support.public_names import CLASSES, PUBLIC, members
from support.site import ROOT, build_site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site; return its folder and the finished process."""
    folder = tmp_path_factory.mktemp("site")
    built = build_site(folder)
    return folder / "site", built


@pytest.fixture(scope="module")
def entries(site):
    """Return the full names in the reference, each with its page."""
    content = (site[0] / "objects.inv").read_bytes()
    lines = zlib.decompress(content.split(b"zlib.\n", 1)[1]).decode().splitlines()
    return {line.split(" py:")[0]: line.split()[-2] for line in lines if " py:" in line}


def test_it_builds_without_a_warning(site):
    assert site[1].returncode == 0, site[1].stdout + site[1].stderr
    assert not site[1].stderr.strip()


def test_every_public_name_has_an_entry(entries):
    assert len(PUBLIC) > 100
    assert sorted(set(PUBLIC) - set(entries)) == []


def test_every_public_attribute_has_an_entry(entries):
    wanted = {f"{name}.{key}" for name, cls in CLASSES.items() for key in members(name, cls)}
    assert len(wanted) > 300
    assert sorted(wanted - set(entries)) == []


def test_every_instance_attribute_has_an_entry(entries):
    """Attributes set in __init__, of classes that are no dataclasses."""
    data = pippin.load_example()
    predictor = pippin.calibrate(data.probs, data.labels, classes=data.classes)
    utility = pippin.decisions.Utility([[1, -1], [-1, 1]], actions=["spray", "leave"])
    decider = pippin.decisions.calibrate([[0.4, 0.6]] * 30, [1] * 30, utility)
    made = [
        pippin.online.Monitor(predictor),
        pippin.online.Stream(predictor),
        pippin.online.RiskMonitor(0.1),
        pippin.distributed.Calibration(classes=data.classes),
        pippin.InputError("x"),
    ]
    heads = {"ConformalHead": predictor, "PValueHead": predictor, "DecisionHead": decider}
    made += [PUBLIC[f"pippin.torch.{name}"](given) for name, given in heads.items()]
    names = {type(one): name for one in made for name, cls in CLASSES.items() if type(one) is cls}
    wanted = {f"{names[type(one)]}.{key}" for one in made for key in vars(one) if not key.startswith("_")}
    assert sorted(name for name in wanted - set(entries) if not name.endswith(".training")) == []  # torch's own


def test_every_argument_has_its_type_in_the_reference(site, entries):
    """Every argument has its type in the reference, which is never just Any."""
    pages = {page: (site[0] / page.split("#")[0]).read_text() for page in set(entries.values())}
    text = "\n".join(dict.fromkeys(pages.values()))
    arguments = re.findall(r"<li><p><strong>(\w+)</strong>(.{0,80})", text) + re.findall(
        r'<dd class="field-(?:odd|even)"><p><strong>(\w+)</strong>(.{0,80})', text
    )
    assert len(arguments) > 400
    assert [name for name, after in arguments if not after.startswith(" (") and not name.endswith("Error")] == []
    assert not re.search(r"<strong>\w+</strong> \(<em>Any</em>\)", text)


class Page(HTMLParser):
    """Links, anchors and external resources of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places, self.fetched = [], set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.places |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag in ("script", "img", "source", "iframe") and values.get("src"):
            self.fetched.append(values["src"])
        elif tag == "link" and values.get("rel") != "canonical" and values.get("href"):
            self.fetched.append(values["href"])


def test_every_link_exists(site):
    """Within the site, anchors included; no page loads external resources."""
    pages = {path.resolve(): Page(path) for path in site[0].rglob("*.html")}
    assert len(pages) > 40
    lost, remote = [], []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.exists() or (place and target in pages and place not in pages[target].places):
                lost.append(f"{path.name}: {link}")
        for link in page.fetched:
            parts = urlsplit(link)
            if parts.netloc or not ((path.parent / unquote(parts.path)).exists() or parts.scheme == "data"):
                remote.append(f"{path.name}: {link}")
    assert lost == []
    assert remote == []
    styles = "\n".join(path.read_text() for path in (site[0] / "_static").rglob("*.css"))
    assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", styles)


def test_questions_lead_to_every_page_of_the_gallery():
    linked = set(re.findall(r"\(gallery/(\w+/\w+)\.py", (ROOT / "docs" / "questions.md").read_text()))
    assert linked == {f"{path.parent.name}/{path.stem}" for path in (ROOT / "docs" / "gallery").glob("*/plot_*.py")}


READ = (
    "index",
    "installation",
    "tutorial",
    "questions",
    "reference/measuring",
    "command-line",
    "answers/index",
    "answers/basics/plot_04_empty_and_large_sets",
)


AXE = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}  # all rules; of the dark, what can differ there


@pytest.fixture(scope="module")
def axe_results(site, browser):
    """Return for six pages the axe violations in the light and dark scheme, and the width on a phone."""
    found, page = {}, browser.new_page()
    for name in READ:
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto((site[0] / f"{name}.html").as_uri())
        violations = {}
        for scheme, rules in AXE.items():
            page.emulate_media(color_scheme=scheme)
            page.evaluate("Promise.allSettled(document.getAnimations().map(each => each.finished))")  # links fade to it
            violations[scheme] = (
                Axe().run(page, options={"resultTypes": ["violations"], **rules}).response["violations"]
            )
        page.set_viewport_size({"width": 360, "height": 900})
        found[name] = violations, page.evaluate("document.documentElement.scrollWidth")
    page.close()
    return found


def test_search_works_from_files(site, browser):
    """The search of the site works from files, without network requests."""
    page = browser.new_page()
    requested, wrong = [], []
    page.on("request", lambda request: requested.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto((site[0] / "index.html").as_uri())
    page.fill("input.sidebar-search", "empty set")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results > p:has-text('finished')", timeout=0)
    page.wait_for_selector("#search-results li p.context", timeout=0)
    found = page.locator("#search-results li").all_inner_texts()
    page.close()
    assert found[0].startswith("Why is a prediction set empty")
    assert len(found) >= 5
    assert any("Questions and answers" in each for each in found)
    assert wrong == []
    assert {urlsplit(address).scheme for address in requested} <= {"file", "data"}


@pytest.mark.parametrize("scheme", AXE)
def test_no_serious_axe_violations(axe_results, scheme):
    serious = {}
    for name, (found, _) in axe_results.items():
        bad = [each for each in found[scheme] if each["impact"] in ("serious", "critical")]
        serious |= {f"{name}: {each['id']}": [node["html"][:200] for node in each["nodes"][:3]] for each in bad}
    assert serious == {}


def test_pages_fit_a_phone(axe_results):
    """Wide content scrolls within the page."""
    assert {name: width for name, (_, width) in axe_results.items() if width > 360} == {}
