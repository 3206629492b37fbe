"""`pippin compare`: several scores on the same random splits."""

import shlex
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from pippin.cli.inputs import at_once, read_or_example, read_or_scan, read_scores
from pippin.cli.options import (
    Alpha,
    CalibrationFraction,
    Columns,
    DataFilesOrExample,
    LabelsFile,
    OutFolder,
    SplitSeed,
    UtilityFile,
)

if TYPE_CHECKING:
    from pippin._compare.methods import Method
    from pippin._compare.report_data import Study
    from pippin._validation.labels import Labelled
    from pippin.decisions import Utility
    from pippin.tables.columns import Layout
    from pippin.tables.reading import Data

CHECKPOINT = "compare.checkpoint.npz"

Scores = Annotated[
    str,
    typer.Option(
        help="Scores between commas, such as ip,repip(gamma=0.05); paper and all stand for several. For a guarantee "
        "beyond the marginal one add per class, per group, per class and group, per cluster or rc3p, as in pip per "
        "class; for probabilities made better first add sharpened, as in socop sharpened; for sets never empty "
        "add nonempty."
    ),
]


UsualSplits = Annotated[
    int | None,
    typer.Option(
        help="How many times the rows are divided at random.", show_default="1000, or 50 where a score is sharpened"
    ),
]


def compare(
    data: DataFilesOrExample = None,
    scores: Scores = "paper",
    splits: UsualSplits = None,
    alpha: Alpha = 0.1,
    calibration_fraction: CalibrationFraction = 0.45,
    seed: SplitSeed = 0,
    out: OutFolder = Path("out"),
    labels: LabelsFile = None,
    utility: UtilityFile = None,
    *,
    columns: Columns,
) -> None:
    """Compare scores on the same random splits; a stopped run goes on where it was."""
    from pippin._compare.comparison import usual_splits
    from pippin.tables.reading import need_groups

    chosen = read_scores(scores)
    layout = columns.layout
    given = at_once(read_or_scan(data, labels, layout)) if data else read_or_example(None, labels, layout)
    worth = None if utility is None else _utility(utility, given.labelled)
    need_groups(given, *(str(method) for method in chosen if method.by_group))
    times = usual_splits(chosen) if splits is None else splits
    compare_data(given, chosen, times, alpha, calibration_fraction, seed, out, given.title, layout, worth)


def compare_data(
    given: "Data",
    chosen: "tuple[Method, ...]",
    splits: int,
    alpha: float,
    calibration_fraction: float,
    seed: int,
    out: Path,
    title: str,
    layout: "Layout | None" = None,
    worth: "Utility | None" = None,
) -> None:
    """Compares, writes everything into the folder and prints it; the report calls the data by `title`."""
    from pippin._compare.report_data import study
    from pippin._compare.splits import make_trial
    from pippin.cli.outputs import output_folder
    from pippin.tables.writing import write_table

    labelled = given.labelled
    with output_folder(out):
        kept = out / CHECKPOINT
        _load_drawing()
        trial = make_trial(labelled, alpha, calibration_fraction, seed, given.groups)
        found = study(trial, chosen, splits, str(kept), worth)
        write_table(out / "results.parquet", found.comparison.table)
        write_table(out / "summary.csv", found.comparison.summary())
        write_table(out / "conditional.csv", found.comparison.conditional())
        write_table(out / "classes.csv", found.comparison.class_coverage())
        if found.decisions is not None:
            write_table(out / "decisions.csv", found.decisions.summary())
        page = _report(found, given, out, title)
        for finished in (kept, *out.glob(f".{CHECKPOINT}.*.tmp")):
            finished.unlink(missing_ok=True)
    _show(found, given, out, page, layout)


def _utility(path: Path, labelled: "Labelled") -> "Utility":
    """The utility, known to fit the classes before the work begins."""
    from pippin.decisions import Utility
    from pippin.tables.reading import naming

    with naming(path):
        worth = Utility.read(path)
        worth.of(labelled.classes)
    return worth


def _load_drawing() -> None:
    """Has a thread load matplotlib, if it is there: the compiled loops leave the interpreter to it meanwhile."""
    if find_spec("matplotlib") is not None:
        Thread(target=import_module, args=("pippin.cli.report.figures",), daemon=True).start()


def _report(found: "Study", data: "Data", out: Path, title: str) -> Path | None:
    """The figures and the page, if the extra `report` is installed."""
    if find_spec("matplotlib") is None or find_spec("jinja2") is None:
        return None
    from pippin._runtime.showing import visible
    from pippin.cli.report import write_report

    run = {
        "command": visible(shlex.join(["pippin", *sys.argv[1:]])),
        "data": visible(data.name),
        "SHA-256 of the data": data.checksum,
    }
    return write_report(out, found, title=f"Which score for {title}?", run=run)


def _show(found: "Study", data: "Data", out: Path, page: Path | None, layout: "Layout | None") -> None:
    from pippin._compare.verdict import on_absent, on_sample
    from pippin.cli.printing import conditional_table, console, decisions_table, metrics_table, setting
    from pippin.tables.columns import spelled

    comparison = found.comparison
    screen = console()
    screen.print(setting(comparison, data))
    screen.print(metrics_table("score", comparison.scores, comparison.summary()))
    screen.print()
    screen.print(conditional_table(comparison))
    for told in (on_absent(comparison), on_sample(comparison)):
        if told:
            screen.print(told)
    if found.decisions is not None:
        screen.print()
        screen.print(decisions_table(found.decisions))
    for sentence in (*found.verdict.sentences, *(check.message for check in found.verdict.checks)):
        screen.print(f"\n{sentence}")
    take = found.verdict.take
    if take.marginal and data.path is not None:
        words = ["pippin", "learn" if take.sharpened else "calibrate", data.name, *(spelled(layout) if layout else ())]
        words += ["--score", str(take.score), "--alpha", f"{comparison.alpha:g}", "--out", "predictor.json"]
        screen.print(f"\nTo take it: {shlex.join(words)}", soft_wrap=True)
    if data.path is None:
        screen.print("\nNext, on your own data: pippin compare data.csv, one column per class and a column label")
    if page is None:
        screen.print('\nFor figures and a report: pip install "pippin-conformal[report]"')
    else:
        screen.print(f"\nThe report, with figures: {page}")
    more = "" if found.decisions is None else ", decisions.csv"
    screen.print(
        f"Every split: {out / 'results.parquet'}; the tables above: {out / 'summary.csv'}, conditional.csv{more}"
    )
