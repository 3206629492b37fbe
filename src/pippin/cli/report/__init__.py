"""Figures and HTML pages with the results of the commands.

They need the extra `report`; the page of `pippin field run` needs only the extra `field`.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pippin._compare.report_data import Study
from pippin._compare.tuning import Sweep
from pippin._runtime.disk import write_atomically
from pippin._runtime.errors import need
from pippin._runtime.showing import visible

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render", "write_report", "write_sweep", "write_toy"]


def write_report(
    out: Path, study: Study, *, title: str, run: dict[str, str], photos: str = "", command: str = ""
) -> Path:
    """Write the figures (PNG and SVG) and report.html of a comparison to a folder; return the path of report.html.

    Args:
        out: the folder, created if it does not exist.
        study: the comparison of methods, the recommended method, and detailed results of the first split.
        title: the heading of the page.
        run: facts by which the run can be repeated, by name: the command, the data file and its checksum.
        photos: a section with photographs in HTML; empty for a page without photographs.
        command: the command that calibrates the recommended score; empty without one.
    """
    need("A figure or report", "report", "matplotlib", "jinja2")
    from pippin.cli.report import figures
    from pippin.cli.report.page import comparison_page, coverage_by_class

    comparison, verdict = study.comparison.distinct, study.verdict
    by_class = coverage_by_class(comparison, verdict.take)
    drawings = {
        "violins": figures.violins(comparison),
        "front": figures.front(comparison, verdict),
        "sizes": figures.sizes(study.evaluations),
        "classes": figures.class_coverage(comparison, by_class),
    }
    if study.decisions is not None:
        drawings["decisions"] = figures.promises(study.decisions)
    svgs = {name: figures.rendered(figure, "svg") for name, figure in drawings.items()}
    narrow = figures.rendered(figures.class_coverage(comparison, by_class, narrow=True), "svg")
    inline = {name: figures.inline(svg, name) for name, svg in (svgs | {"narrow": narrow}).items()}
    page = comparison_page(study, by_class, inline, title, run, photos, command)
    out.mkdir(parents=True, exist_ok=True)
    for name, figure in drawings.items():
        figures.save_figure(figure, out, name, svgs[name])
    write_atomically(out / "report.html", page.encode())
    return out / "report.html"


def write_sweep(out: Path, sweep: Sweep) -> Path:
    """Write the figure of a parameter sweep as sweep.png and sweep.svg, and return the path of the PNG."""
    need("A figure or report", "report", "matplotlib")
    from pippin.cli.report import figures

    return figures.save_figure(figures.sweep(sweep), out, "sweep")


def write_toy(out: Path) -> Path:
    """Write the figure of `pippin toy` as toy.png and toy.svg, and return the path of the PNG."""
    need("A figure or report", "report", "matplotlib")
    from pippin.cli.report import figures

    return figures.save_figure(figures.toy(), out, "toy")


def render(template: str, **content: Any) -> str:
    """Render a Jinja template of this package, with HTML and unprintable characters in the values escaped."""
    return _environment().get_template(template).render(content)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        finalize=lambda value: value if hasattr(value, "__html__") else visible(value),
        loader=PackageLoader("pippin.cli.report"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"number": _number, "many": many}
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "ensure_ascii": False, "separators": (",", ":")}
    return environment


def _number(value: float, spec: str) -> str:
    """Format a number by a format specification, with a typographic minus sign, ∞ for infinity, and – for NaN.

    >>> _number(-0.5, ".1%"), _number(float("inf"), ".3f")
    ('−50.0%', '∞')
    """
    return format(value, spec).replace("-", "−").replace("inf", "∞").replace("nan", "–")


def in_words(name: object) -> str:
    """Replace the underscores in a class name by spaces."""
    return str(name).replace("_", " ")


def many(n: int, word: str) -> str:
    """Write a count followed by a noun, in the plural unless the count is 1.

    >>> many(1, "window"), many(2000, "window")
    ('1 window', '2,000 windows')
    """
    return f"{n:,} {word}{'' if n == 1 else 's'}"
