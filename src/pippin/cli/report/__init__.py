"""Figures and the report page: results as files. Needs the extra `report`; draws and computes nothing new."""

from pathlib import Path

from pippin._compare.report_data import Study
from pippin._compare.tuning import Sweep
from pippin._runtime.disk import write_whole
from pippin._runtime.extras import need

__all__ = ["write_report", "write_sweep", "write_toy"]


def write_report(out: Path, study: Study, *, title: str, run: dict[str, str]) -> Path:
    """Writes the figures (PNG and SVG) and report.html into the folder, and returns the page's path.

    Args:
        out: the folder, which is made where it is missing.
        study: what is to be told.
        title: the page's heading.
        run: how to repeat it, name and value: the command, the data, its checksum.
    """
    need("A figure or report", "report", "matplotlib")
    from pippin._plotting.front import read_front
    from pippin.cli.report import figures
    from pippin.cli.report.classes import classes, classes_told
    from pippin.cli.report.page import Drawn, build_page
    from pippin.cli.report.style import inline, rendered, save_figure

    comparison, verdict = study.comparison, study.verdict
    drawings = {"violins": figures.violins(comparison), "front": figures.front(comparison, verdict)}
    by_class = classes_told(comparison, str(verdict.compared[-1].score))
    if study.evaluations:
        drawings["sizes"] = figures.sizes(study.evaluations)
        sizes = dict(zip(map(str, comparison.scores), comparison.metric("mean_size").mean(axis=1), strict=True))
        drawings["classes"] = classes(by_class, comparison.alpha, sizes)
    if study.decisions is not None:
        drawings["decisions"] = figures.promises(study.decisions)
    svgs = {name: rendered(figure, "svg") for name, figure in drawings.items()}
    images = {name: inline(svg, name) for name, svg in svgs.items()}
    if study.evaluations:  # on a telephone; in the page alone
        images["narrow"] = inline(rendered(classes(by_class, comparison.alpha, sizes, narrow=True), "svg"), "narrow")
    page = build_page(study, Drawn(by_class, read_front(comparison, verdict.fronts), images), title, run)
    out = _folder(out)
    for name, figure in drawings.items():
        save_figure(figure, out, name, svgs[name])
    write_whole(out / "report.html", page.encode())
    return out / "report.html"


def write_sweep(out: Path, sweep: Sweep) -> Path:
    """Writes the sweep's figure as sweep.png and sweep.svg, and returns the PNG's path."""
    need("A figure or report", "report", "matplotlib")
    from pippin.cli.report import figures
    from pippin.cli.report.style import save_figure

    figure = figures.sweep(sweep)
    save_figure(figure, _folder(out), "sweep")
    return Path(out) / "sweep.png"


def write_toy(out: Path) -> Path:
    """Writes the paper's toy cases as toy.png and toy.svg, and returns the PNG's path."""
    need("A figure or report", "report", "matplotlib")
    from pippin.cli.report import figures
    from pippin.cli.report.style import save_figure

    figure = figures.toy()
    save_figure(figure, _folder(out), "toy")
    return Path(out) / "toy.png"


def _folder(out: Path) -> Path:
    Path(out).mkdir(parents=True, exist_ok=True)
    return Path(out)
