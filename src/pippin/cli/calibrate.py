"""`pippin calibrate`: a predictor from probabilities and labels."""

from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

import pippin
from pippin._compare.methods import Method, parse_method
from pippin._distributed.calibration import MOST_SCORES, Calibration, calibrate_batched
from pippin._engine.dispatch import accuracy
from pippin._runtime.errors import InputError
from pippin._validation.batched import Batch, needed
from pippin.cli import options
from pippin.cli.decide import calibrate_decider
from pippin.cli.inputs import connected, in_memory, predicts_in_batches, read, read_all
from pippin.cli.outputs import check_target
from pippin.cli.printing import class_table, console
from pippin.tables.formats import read_column
from pippin.tables.reading import Data, label_numbers, need_groups, read_features
from pippin.tables.scanning import Scan

TaxonomyName = Literal["class", "group", "class and group", "cluster", "rc3p", "kind"]
_PER = (
    "The taxonomy of a Mondrian guarantee. cluster: rare classes share examples. rc3p: per class, with a limit on the "
    "rank too. kind: with --utility."
)
_UNSEEN = "The threshold of a group without calibration rows: an error, or the marginal one."
_UNITS = "The groups are units, such as the photograph of each window: the guarantee is for a row of a new one."
_SHARPEN = (
    "Sharpen the probabilities first. split: some rows fit a sharpener, the others calibrate. mixture: each object "
    "draws one of five sharpeners. cross: the five together, with a weaker proof."
)
_FRACTION = "With --sharpen split, the share of rows that fits the sharpener; if not given, 0.5."
_MAX_SIZE = "With --sharpen split and socop: choose its price for the most singletons at this mean size."
_MIN_SINGLETONS = "With --sharpen split and socop: choose its price for the smallest sets, this share singletons."
_FEATURES = "With --sharpen: use the features that train --features writes."


class TaxonomyOptions(NamedTuple):
    """The cells or units that a guarantee holds for."""

    per: Annotated[TaxonomyName | None, options.an_option(_PER)] = None
    unseen: Annotated[Literal["error", "marginal"], typer.Option(help=_UNSEEN)] = "error"
    units: Annotated[bool, typer.Option("--units", help=_UNITS)] = False


class Sharpening(NamedTuple):
    """The rows that fit a sharpener, and the preference that SOCOP's price is chosen for."""

    sharpen: Annotated[Literal["split", "mixture", "cross"] | None, options.an_option(_SHARPEN)] = None
    learning_fraction: Annotated[float | None, options.an_option(_FRACTION)] = None
    max_size: Annotated[float | None, options.an_option(_MAX_SIZE)] = None
    min_singletons: Annotated[float | None, options.an_option(_MIN_SINGLETONS)] = None
    features: Annotated[bool, typer.Option("--features", help=_FEATURES)] = False


def calibrate(
    data: options.DataFiles,
    out: options.PredictorOut,
    score: Annotated[str, typer.Option(help="The score, such as raps(lam=0.1) or ip/ms(variant=sum).")] = "repip",
    alpha: options.Alpha = 0.1,
    *,
    taxonomy: TaxonomyOptions,
    sharpening: Sharpening,
    seed: options.DrawSeed = None,
    labels: options.LabelsFile = None,
    weights: options.WeightsFile = None,
    utility: options.UtilityFile = None,
    no_scores: Annotated[bool, typer.Option("--no-scores", help="Leave calibration scores out of the file.")] = False,
    scheduler: options.Scheduler = None,
    columns: options.ColumnOptions,
) -> None:
    """Calibrate a predictor on rows that the classifier was not trained on."""
    check_target(out, ".json")
    method = parse_method(score)
    _check_options(method, taxonomy, sharpening, weights, utility)
    if utility is not None:
        given = read_all(data, labels, columns.layout)
        calibrate_decider(given, utility, alpha, out, _cells(given, taxonomy), no_scores)
        return
    plain = method.plain and weights is None and not taxonomy.units and sharpening.sharpen is None
    if scheduler is not None and (labels is not None or not plain):
        raise InputError("Expected --scheduler with tables and a score", "leave --labels and --weights out")
    source, note = read(data, labels, columns.layout, scheduler), ""
    if plain and isinstance(source, Scan):
        predictor, right = _from_tables(source, method.score, alpha, seed, taxonomy, scheduler)
        if predictor.n_calibration > MOST_SCORES and not no_scores:
            note = (
                f"\nIts file leaves out the scores of so many rows: it serves alpha={alpha:g} alone, without p-values."
            )
    else:
        given = in_memory(source)
        predictor = _from_rows(given, method, alpha, seed, _cells(given, taxonomy), weights, sharpening)
        right = None if sharpening.sharpen else accuracy(given.rows, given.truth())
    if no_scores and not predicts_in_batches(predictor):
        what = "Expected --no-scores with one threshold, or thresholds per class or group, got another predictor"
        raise InputError(what, "leave it out, such a predictor has no scores or needs them")
    predictor.save(out, **({"scores": False} if no_scores else {}))
    print(f"{out}, made from {source.name}: {predictor.describe()}{note}")
    _explain(predictor, right)


def _check_options(
    method: Method, taxonomy: TaxonomyOptions, sharpening: Sharpening, weights: Path | None, utility: Path | None
) -> None:
    """Raise an InputError for options that need or exclude each other."""
    (per, unseen, units), sharpen = taxonomy, sharpening.sharpen
    if method.sharpened or method.per is not None or method.nonempty:
        remedy = "sharpen it with --sharpen split" if method.sharpened else "ask for the rest with --per"
        raise InputError(f"Expected --score to be a score, got '{method}'", remedy)
    chosen = {"--units": units, "--sharpen": sharpen, "--weights": weights, "--per": per, "--utility": utility}
    given = [name for name, value in (chosen | {"ip/ms": method.combination}).items() if value]
    for pair in combinations(given, 2):
        if pair != ("--per", "--utility"):
            raise InputError(f"Expected {pair[0]} without {pair[1]}, got both", "choose one of them")
    if per == "kind" and utility is None:
        raise InputError("Expected --utility beside --per kind, got none", "name the file that has the kinds")
    if unseen != "error" and "group" not in (per or ""):
        what = f"Expected --per group beside --unseen {unseen}, got thresholds that know no groups"
        raise InputError(what, "ask for it, or leave --unseen out")
    if sharpening.max_size is not None and sharpening.min_singletons is not None:
        raise InputError("Expected --max-size without --min-singletons, got both", "choose one of them")
    for name in ("learning_fraction", "max_size", "min_singletons"):
        if getattr(sharpening, name) is not None and sharpen != "split":
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"Expected --sharpen split beside {option}, got {sharpen or 'none'}", "add it")
    if method.score.name != "socop" and (sharpening.max_size, sharpening.min_singletons) != (None, None):
        raise InputError(f"Expected socop with --max-size or --min-singletons, got {method}", "pass --score socop")
    if sharpening.features and sharpen is None:
        raise InputError("Expected --sharpen beside --features, got none", "add --sharpen split")


def _from_rows(
    given: Data,
    method: Method,
    alpha: float,
    seed: int | None,
    cells: Any,
    weights: Path | None,
    sharpening: Sharpening,
) -> Any:
    """Calibrate on all rows at once."""
    score: Any = method.combination or method.score
    sharpen, fraction, *wishes, features = sharpening
    for name, value in zip(("max_size", "min_singletons"), wishes, strict=True):
        score = score if value is None else f"socop({name}={value!r})"
    keywords: Any = {"weights": None if weights is None else read_column(weights, "weights")}
    keywords["sharpen"] = sharpen if fraction is None else f"split(learning_fraction={fraction!r})"
    keywords["features"] = read_features(given) if features else None
    return pippin.calibrate(given.rows, label_numbers(given), score, alpha, seed=seed, **cells, **keywords)


def _cells(given: Data, taxonomy: TaxonomyOptions) -> Any:
    """Return the keywords of a calibration of cells or units."""
    by_group = "group" in (taxonomy.per or "")
    if taxonomy.units or by_group:
        user = "--units" if taxonomy.units else f"--per '{taxonomy.per}'"
        need_groups(given.name, given.groups is not None, user)
    if taxonomy.units:
        return {"units": given.groups}
    return {"per": taxonomy.per, "unseen": taxonomy.unseen, "groups": given.groups if by_group else None}


def _from_tables(
    given: Scan, score: pippin.Score, alpha: float, seed: int | None, taxonomy: TaxonomyOptions, scheduler: str | None
) -> tuple[Any, float | None]:
    """Calibrate on tables, in batches or on a cluster; return the classifier's accuracy too if it was counted."""
    cells: Any = {"per": taxonomy.per, "unseen": taxonomy.unseen}
    if scheduler is not None:
        from pippin import dask

        with connected(scheduler):
            return dask.calibrate(given, None, score, alpha, seed=seed, **cells), None
    if "group" in (taxonomy.per or ""):
        need_groups(given.name, given.has_groups, f"--per '{taxonomy.per}'")
    right = 0.0

    def count(batch: Batch) -> None:
        nonlocal right
        if batch.first < MOST_SCORES:
            right += batch.rows.n * accuracy(batch.rows, needed(batch.labels))

    calibration = Calibration(score, alpha, classes=given.classes, seed=seed, **cells)
    predictor = calibrate_batched(given, calibration, count)
    n = predictor.n_calibration
    return predictor, right / n if n <= MOST_SCORES else None


def _explain(predictor: Any, right: float | None) -> None:
    """Print why sets will be empty, the thresholds of each cell, and the most frequent errors of the classifier."""
    coverage = 1 - predictor.alpha
    if right is not None and right > coverage:
        print(
            f"The classifier is right {100 * right:.3g}% of the time, more often than the {100 * coverage:g}% asked "
            f"for: some sets will be empty. Ask for --alpha {1 - right:.1g} or less, or predict with --non-empty."
        )
    if predictor.per is not None:
        console().print(class_table(predictor))
    for sharpener in predictor.sharpeners[:1]:
        for each in sharpener.explain()[:3]:
            print(f"  {each.true} taken for {each.predicted}: {each.before:.0%} before, {each.after:.0%} after")
        if not sharpener.helps:
            print("The sharpener wins nothing clear out of fold: calibrate on all rows without it may do as well.")
