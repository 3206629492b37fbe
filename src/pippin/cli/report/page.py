"""HTML pages: the report of `pippin compare`, its section with photographs, and the page of `pippin monitor`."""

import base64
import platform
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pippin._compare.comparison import Comparison, describe_coinciding
from pippin._compare.evidence import differences
from pippin._compare.methods import Method
from pippin._compare.report_data import STEPS, LevelCurve, Study
from pippin._compare.verdict import describe_absent_classes, describe_sample
from pippin._conformal.coverage_by import strata_names
from pippin._conformal.evaluation import WORDS
from pippin._conformal.sets import PredictionSets
from pippin._plotting.comparison import HOLLOW, Dot, family_style, read_front
from pippin._plotting.drawing import RATIO
from pippin._plotting.streams import draw_monitor
from pippin._runtime.disk import to_bytes
from pippin._runtime.version import __version__
from pippin._theory.level import quantile_rank
from pippin.cli.report import figures, in_words, render

if TYPE_CHECKING:
    from pippin.online import Monitor
    from pippin.tables.reading import Data

ClassCoverage = dict[str | int, tuple[int, float]]  # number of rows and coverage of each class

MEASURES = {  # heading, explanation and number format of each column in the table of scores
    "coverage": (*WORDS["coverage"], ".1%"),
    "mean_size": (WORDS["mean_size"][0], f"{WORDS['mean_size'][1]}; less is better", ".2f"),
    "singleton_rate": (WORDS["singleton_rate"][0], f"{WORDS['singleton_rate'][1]}; more is better", ".1%"),
    "singleton_accuracy": ("singleton accuracy", "share of singletons that contain the true class", ".1%"),
    "empty_rate": (*WORDS["empty_rate"], ".1%"),
    "threshold": ("threshold", "a set holds the classes with scores up to this", ".3f"),
}
# Mondrian taxonomies in the order of preference for the figure of coverage by class: the first that was compared is
# used.
TAXONOMIES = ("class", "class and group", "cluster", "rc3p", "interpolated")

EACH = 6  # maximum number of photographs below each heading of the section
SIDE = 112  # side of a thumbnail in pixels
# Scores of the sets in the section with photographs; all but the first only give examples of empty sets.
SHOWN = ("repip", "raps", "aps")


def coverage_by_class(comparison: Comparison, recommended: Method) -> dict[str, ClassCoverage]:
    """Return the coverage of each class under a score with one threshold, and with thresholds by class.

    The score is the recommended one, if both versions were compared, otherwise another one. If both versions of no
    score were compared, return only the coverage under the recommended score.
    """
    table, names = comparison.class_coverage().drop_nans(), [str(method) for method in comparison.scores]
    versions = [method for per in TAXONOMIES for method in comparison.scores if method.per == per]
    pairs = [(str(method.score), str(method)) for method in versions if str(method.score) in names]
    shown = min(pairs, key=lambda pair: pair[0] != str(recommended), default=(str(recommended),))
    tables = {name: table.filter(table["score"] == name).to_dicts() for name in shown}
    return {name: {row["class"]: (row["n"], row["coverage"]) for row in rows} for name, rows in tables.items()}


def comparison_page(
    study: Study,
    by_class: dict[str, ClassCoverage],
    drawings: dict[str, str],
    title: str,
    run: dict[str, str],
    photos: str,
    command: str,
) -> str:
    """Render report.html; `drawings` are the figures as inline SVG by name, other arguments as in `write_report`."""
    comparison, verdict, curves = study.comparison.distinct, study.verdict, study.curves
    summary = comparison.summary().to_dicts()
    made_by = {"pippin": __version__, "Python": platform.python_version(), "NumPy": np.__version__}
    sample = {"sample": describe_sample(comparison)} if describe_sample(comparison) else {}
    return render(
        "report.html.j2",
        absent=describe_absent_classes(comparison),
        best=_best(summary),
        by_class=by_class,
        command=command,
        coinciding=describe_coinciding(study.comparison),
        comparison=comparison,
        conditional=comparison.conditional().to_dicts(),
        data=_script_data(study),
        decisions=study.decisions,
        drawings=drawings,
        example=study.example,
        implausible=comparison.require_trial().implausible,
        hollow=HOLLOW if any(family_style(method).hollow for method in comparison.scores) else "",
        measures=MEASURES,
        lines=dict(zip(map(str, comparison.scores), study.comparison.shown_names, strict=True)),
        n_test=curves[0].n_test,
        photos=photos,
        pairs=list(zip(*(differences(comparison, name) for name in ("mean_size", "singleton_rate")), strict=True)),
        run=made_by | sample | run,
        sampled={str(curve.method): curve.n_test for curve in curves if curve.n_test < curves[0].n_test},
        scores=study.comparison.scores,
        step=min(max(round(1000 * comparison.alpha), STEPS[0]), STEPS[-1]),
        steps=STEPS,
        strata=strata_names(comparison.require_trial().n_classes),
        summary=summary,
        title=title,
        verdict=verdict,
    )


def _best(summary: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return pairs (metric, score) of the smallest mean size and of the most singletons, with all ties as printed."""
    best = set()
    for name, choose in (("mean_size", min), ("singleton_rate", max)):
        shown = {row["score"]: format(row[name], MEASURES[name][2]) for row in summary}
        wanted = format(choose(row[name] for row in summary), MEASURES[name][2])
        best |= {(name, score) for score, text in shown.items() if text == wanted}
    return best


def _script_data(study: Study) -> dict[str, Any]:
    """Return the data of the page's script: points of the scatter chart, and results for each alpha on the slider."""
    comparison = study.comparison.distinct
    front = read_front(comparison, study.verdict.fronts)
    n = comparison.sample.n_calibration
    return {
        "ratio": RATIO,
        "front": {
            "compared": [_dot(dot) | {"large": True} for dot in front.compared],
            "traces": [{"title": t.title, "dash": t.dash, "dots": [_dot(dot) for dot in t.dots]} for t in front.traces],
            "best": [{"x": dot.size, "y": dot.singletons} for dot in front.best],
        },
        "first": STEPS[0],
        "n": n,
        "take": str(study.verdict.take),
        "ranks": _packed(np.array([quantile_rank(n, step / 1000) for step in STEPS]), "<i4"),
        "curves": [_curve(curve) for curve in study.curves],
    }


def _dot(dot: Dot) -> dict[str, Any]:
    color, marker, hollow = family_style(dot.method)
    place = {"label": str(dot.method), "x": dot.size, "y": dot.singletons, "colour": color, "marker": marker}
    return place | ({"hollow": True} if hollow else {})


def _curve(curve: LevelCurve) -> dict[str, Any]:
    """Return the results of a method at each alpha on the slider: counts of sets, and the threshold if there is one."""
    counts = {name: _packed(getattr(curve, name), "<i4") for name in ("covered", "sizes", "singletons", "empty")}
    thresholds = {} if curve.thresholds is None else {"thresholds": _packed(curve.thresholds, "<f8")}
    return {"label": str(curve.method), "tested": curve.n_test} | thresholds | counts


def _packed(values: NDArray[Any], kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode()


def stream_page(monitor: "Monitor") -> str:
    """Render the page of a monitor: its state, a plot of evidence and coverage, and the estimated changepoint."""
    drawing = figures.inline(figures.rendered(draw_monitor(monitor), "svg"), "stream")
    return render("stream.html.j2", title="Monitoring of a stream", monitor=monitor, drawing=drawing)


def photographs(folder: Path, probs: Path, alpha: float, fraction: float, seed: int) -> str:
    """Render photographs with their prediction sets as a section of the report.

    `probs` is the file with the logits of held-out images in `folder` that `pippin train` wrote; the other arguments
    define the first split of the comparison, whose test rows are shown.
    """
    from pippin.tables.reading import read_data

    data = read_data(probs)
    with np.load(probs) as archive:
        files = archive["files"]
    rows, sets = first_split(data, alpha, fraction, seed)
    return photo_section(folder, files[rows].tolist(), sets, data.truth()[rows])


def first_split(
    data: "Data", alpha: float, fraction: float, seed: int
) -> tuple[NDArray[np.int64], dict[str, PredictionSets]]:
    """Return the test rows of the first split of a comparison, and their prediction sets under each score of SHOWN."""
    import pippin
    from pippin._compare.splits import draw_split, make_trial

    labelled = data.labelled
    split = draw_split(make_trial(labelled, alpha, fraction, seed), 0)
    inner, outer = np.flatnonzero(split.calibration), np.flatnonzero(~split.calibration)
    sets = {}
    for score in SHOWN:
        generator = split.generator()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*too few.*")  # the comparison has warned of this already
            rows, labels = labelled.rows.take(inner), labelled.labels[inner]
            predictor = pippin.calibrate(rows, labels, score, alpha, seed=generator)
        outer_sets = predictor.predict(labelled.rows.take(outer), seed=generator)
        sets[str(predictor.score)] = replace(outer_sets, classes=labelled.classes)
    return outer, sets


def photo_kinds(
    sets: dict[str, PredictionSets], labels: NDArray[np.int64]
) -> dict[str, tuple[PredictionSets, NDArray[np.int64]]]:
    """Return for each heading of the section the prediction sets, and the rows of the photographs to show.

    The sets are those of the first score in `sets`; under the heading of empty sets, those of the first score that has
    any.
    """
    score, first = next(iter(sets.items()))
    correct, single = first.contain_codes(labels), first.sizes == 1
    other, empty = next(((name, found) for name, found in sets.items() if (found.sizes == 0).any()), (score, first))
    return {
        "Correct singletons": (first, _spread(single & correct)),
        "Wrong singletons": (first, _spread(single & ~correct)),
        "The largest sets, of different true classes": (first, _largest(first, labels)),
        f"Empty sets, under {other}" if other != score else "Empty sets": (empty, _spread(empty.sizes == 0)),
    }


def photo_section(
    folder: Path, files: Sequence[str], sets: dict[str, PredictionSets], labels: NDArray[np.int64]
) -> str:
    """Render examples of photographs with their prediction sets as a section of the report.

    Args:
        folder: the folder of the photographs.
        files: the path of each row's photograph in the folder; if it cannot be read, the picture is left out.
        sets: the prediction sets of all rows under each score.
        labels: the true class of each row, as an index.
    """
    kinds = {
        heading: [_card(folder, files[row], found, row, int(labels[row])) for row in rows.tolist()]
        for heading, (found, rows) in photo_kinds(sets, labels).items()
    }
    return render("photos.html.j2", kinds=kinds, n=len(files), score=next(iter(sets)))


def _spread(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the rows marked True; if there are more than EACH of them, EACH rows at equal distances."""
    rows = np.flatnonzero(chosen)
    return rows if len(rows) <= EACH else rows[np.linspace(0, len(rows) - 1, EACH).astype(int)]


def _largest(sets: PredictionSets, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Choose at most EACH rows with large sets: the largest set of each true class, then the next largest of each."""
    order = np.argsort(-sets.sizes, kind="stable")
    of_class: dict[int, dict[frozenset[str | int], int]] = {}
    names = sets.labels()
    for row in order[sets.sizes[order] > 1].tolist():
        of_class.setdefault(int(labels[row]), {}).setdefault(frozenset(names[row]), row)
    turns = [(turn, -sets.sizes[row], row) for rows in of_class.values() for turn, row in enumerate(rows.values())]
    return np.array([row for *_, row in sorted(sorted(turns)[:EACH], key=lambda turn: turn[1:])], dtype=np.int64)


def _card(folder: Path, file: str, sets: PredictionSets, row: int, label: int) -> dict[str, Any]:
    truth = sets.classes[label]
    members = [(in_words(name), name == truth) for name in sets[row]]
    return {"file": file, "picture": thumbnail(folder / file), "truth": in_words(truth), "members": members}


def thumbnail(path: Path) -> str | None:
    """Make a thumbnail of a photograph as JPEG in base64; None if the file cannot be read."""
    from PIL import Image, ImageOps

    from pippin.images.reading import FORMATS

    try:
        with Image.open(path, formats=FORMATS) as image:
            image.draft("RGB", (SIDE, SIDE))
            small = ImageOps.fit(ImageOps.exif_transpose(image).convert("RGB"), (SIDE, SIDE))
    except Exception:  # Pillow's decoders raise many exception types
        return None
    return base64.b64encode(to_bytes(partial(small.save, format="JPEG", quality=80))).decode()
