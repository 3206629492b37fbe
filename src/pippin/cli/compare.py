"""Command `pippin compare`: compare several scores on the same random splits."""

import shlex
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import typer

from pippin._compare import report_data
from pippin._compare.comparison import default_splits, describe_coinciding
from pippin._compare.methods import Method
from pippin._compare.splits import Trial, make_trial
from pippin._compare.verdict import describe_absent_classes, describe_sample
from pippin._runtime.showing import visible
from pippin.cli import options
from pippin.cli.decide import read_utility
from pippin.cli.inputs import read_all, read_scores
from pippin.cli.outputs import echo, output_folder
from pippin.cli.printing import conditional_table, console, decisions_table, metrics_table, setting
from pippin.tables.columns import Layout, command_line_options
from pippin.tables.reading import Data, need_groups
from pippin.tables.writing import write_table

CHECKPOINT = "compare.checkpoint.npz"
_SCORES = (
    "Scores separated by commas, such as ip,repip(gamma=0.05); paper and all name several. For a Mondrian guarantee "
    "append per class, per group, per class and group, per cluster, rc3p or interpolated, as in pip per class; for "
    "recalibrated probabilities append sharpened, as in socop sharpened; for sets that are never empty append nonempty."
)
_SPLITS = typer.Option(help="The number of random splits.", show_default="1000, or 50 where a score is sharpened")


def compare(
    data: options.DataFilesOrExample = None,
    scores: Annotated[str, typer.Option(help=_SCORES)] = "paper",
    splits: Annotated[int | None, _SPLITS] = None,
    *,
    split_options: options.SplitOptions,
    out: options.OutFolder = Path("out"),
    labels: options.LabelsFile = None,
    utility: options.UtilityFile = None,
    columns: options.ColumnOptions,
) -> None:
    """Compare scores on the same random splits; an interrupted run resumes when it is started again."""
    methods = read_scores(scores)
    given = read_all(data, labels, columns.layout)
    utilities = None if utility is None else read_utility(utility, given)
    need_groups(given.name, given.groups is not None, *(str(method) for method in methods if method.by_group))
    with output_folder(out):
        trial = make_trial(given.labelled, *split_options, given.groups)
        splits = default_splits(methods) if splits is None else splits
        study = compare_data(given, trial, methods, splits, out, given.title, utilities, layout=columns.layout)
    if command := _next_command(given, columns.layout, study):
        echo(f"\nTo use it at this alpha: {command}")
        if study.verdict.on_empty:
            echo("Then, so that no set is empty: pippin predict predictor.json new.csv --non-empty --out sets.csv")
    if given.path is None:
        echo("\nOn your own data: pippin compare data.csv, with a column per class and a column label")
    has_matplotlib = find_spec("matplotlib") is not None
    install = 'For figures and a report: pip install "pippin-conformal[report]"'
    report = f"The report: {out / 'report.html'}; its figures are there as .png and .svg too"
    echo(f"\n{report if has_matplotlib else install}")
    more = "" if utility is None else ", decisions.csv"
    echo(f"Every split: {out / 'results.parquet'}; the tables above: {out / 'summary.csv'}, conditional.csv{more}")


def compare_data(
    given: Data,
    trial: Trial,
    methods: tuple[Method, ...],
    splits: int,
    out: Path,
    title: str,
    utility: Any = None,
    photos: str = "",
    layout: Layout | None = None,
) -> report_data.Study:
    """Compare methods on random splits, write tables and a report to the folder `out`, and print the tables.

    In the report, `title` names the data, and `photos` is a section with photographs in HTML. With `layout`, the roles
    of columns, the report contains the command that calibrates the recommended score.
    """
    has_matplotlib = find_spec("matplotlib") is not None
    if has_matplotlib:  # import matplotlib while compiled loops run, which release the GIL
        Thread(target=import_module, args=("pippin.cli.report.figures",), daemon=True).start()
    checkpoint = out / CHECKPOINT
    study = report_data.study(trial, methods, splits, str(checkpoint), utility)
    comparison = study.comparison
    write_table(out / "results.parquet", comparison.table)
    write_table(out / "summary.csv", comparison.summary())
    write_table(out / "conditional.csv", comparison.conditional())
    write_table(out / "classes.csv", comparison.class_coverage())
    if study.decisions is not None:
        write_table(out / "decisions.csv", study.decisions.summary())
    if has_matplotlib:
        from pippin.cli.report import write_report

        run = {"command": visible(shlex.join(["pippin", *sys.argv[1:]])), "data": visible(given.name)}
        run["SHA-256 of the data"] = given.checksum
        run["files next to it"] = "results.parquet (every split), the tables as .csv, the figures as .png and .svg"
        command = "" if layout is None else visible(_next_command(given, layout, study))
        write_report(out, study, title=f"Which score for {title}?", run=run, photos=photos, command=command)
    for finished in (checkpoint, *out.glob(f".{CHECKPOINT}.*.tmp")):
        finished.unlink(missing_ok=True)
    screen = console()
    metrics = metrics_table("score", comparison.shown_names, comparison.distinct.summary())
    parts: list[Any] = [setting(comparison, given), metrics, "", conditional_table(comparison)]
    notes = describe_coinciding(comparison), describe_absent_classes(comparison), describe_sample(comparison)
    parts += filter(None, notes)
    parts += [] if study.decisions is None else ["", decisions_table(study.decisions)]
    verdict = study.verdict
    sentences = (*verdict.sentences, *verdict.cautions, *(check.message for check in verdict.checks))
    sentences += () if study.decisions is None else (f"Decisions: {visible(study.decisions.verdict)}",)
    for part in (*parts, *(f"\n{text}" for text in sentences)):
        screen.print(part)
    return study


def _next_command(given: Data, layout: Layout, study: report_data.Study) -> str:
    """Return the command that calibrates the recommended score; empty without a data file or for several thresholds."""
    take = study.verdict.take
    if not take.marginal or given.path is None:
        return ""
    words = ["pippin", "calibrate", given.name, *command_line_options(layout), "--score", str(take.score)]
    words += [*(["--sharpen", "split"] if take.sharpened else []), "--alpha", f"{study.comparison.alpha:g}"]
    return shlex.join([*words, "--out", "predictor.json"])
