"""Command `pippin calibrate`: calibrate a predictor on probabilities and labels."""

from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

import pippin
from pippin._compare.methods import Method, parse_method
from pippin._conformal.evaluation import explain_empty_sets
from pippin._conformal.mondrian import OVERLAPPING
from pippin._distributed.calibration import MOST_SCORES, Calibration, calibrate_batched
from pippin._engine.dispatch import accuracy
from pippin._runtime.errors import InputError
from pippin._runtime.showing import visible
from pippin._validation.batched import Batch, needed
from pippin.cli import options
from pippin.cli.decide import bound_cost, calibrate_decider, print_decider
from pippin.cli.inputs import connected, in_memory, join_models, predicts_in_batches, read, read_all
from pippin.cli.outputs import check_target, echo, with_provenance
from pippin.cli.printing import class_table, console
from pippin.tables.formats import read_column
from pippin.tables.reading import Data, label_numbers, need_groups, read_features
from pippin.tables.scanning import Scan

TaxonomyName = Literal[
    "class",
    "group",
    "class and group",
    "cluster",
    "rc3p",
    "interpolated",
    "groups",
    "groups randomized",
    "largest group",
    "kind",
    "action",
]
# Pairs of options of the guarantee that may be combined; all other pairs exclude each other.
PAIRS = {
    ("--per", "--utility"),
    ("--units", "--utility"),
    ("--sharpen", "--utility"),
    ("--units", "--sharpen"),
    ("--sharpen", "--per"),
}
_SCORE = "The nonconformity score, such as raps(lam=0.1) or ip/ms(variant=sum)."
_NO_SCORES = "Do not save the calibration scores: a small file, without p-values."
_PER = (
    "The Mondrian taxonomy: coverage is guaranteed in each category. cluster: classes with similar scores share a "
    "threshold. rc3p: per class, with a limit on the rank too. interpolated: between one threshold and "
    "one per class, guaranteed for all rows together. groups: groups that may overlap, such as 'wet & sandy' in the "
    "column group; largest group: the same with larger sets and p-values. With --utility also kind: kinds of classes, "
    "and action: certificates hold among the objects of each action."
)
_UNSEEN = "For groups without calibration rows: raise an error, or use the marginal threshold."
_UNITS = "The groups are clusters of dependent rows, such as windows of a photograph: coverage holds for new groups."
_SHARPEN = (
    "Recalibrate the probabilities first. split: fit a sharpener on some rows, calibrate on the others. mixture: draw "
    "one of five cross-fitted sharpeners for each object. cross: combine the five, with a weaker guarantee."
)
_MAX_COST = (
    "With --utility: choose actions with a small expected cost, minus the utility, instead of certificates. With 95% "
    "confidence it is at most this number; a large number gives the smallest cost."
)
_FRACTION = "With --sharpen split: the share of rows that the sharpener is fitted on; if not given, 0.5."
_MAX_SIZE = "With --sharpen split and socop: choose mu for the most singletons with at most this mean size."
_SINGLETONS = "With --sharpen split and socop: choose mu for the smallest sets with at least this share of singletons."
_FEATURES = "With --sharpen: also use the features that train --features wrote."


class TaxonomyOptions(NamedTuple):
    """Options of the guarantee: coverage within each category (class, group, …) or of new units (photographs, …)."""

    per: Annotated[TaxonomyName | None, options.an_option(_PER)] = None
    unseen: Annotated[Literal["error", "marginal"], typer.Option(help=_UNSEEN)] = "error"
    units: Annotated[bool, typer.Option("--units", help=_UNITS)] = False
    confidence: options.Confidence = None


class SharpeningOptions(NamedTuple):
    """Options of the sharpener, which recalibrates probabilities, and of the choice of the parameter mu of SOCOP."""

    sharpen: Annotated[Literal["split", "mixture", "cross"] | None, options.an_option(_SHARPEN)] = None
    learning_fraction: Annotated[float | None, options.an_option(_FRACTION)] = None
    max_size: Annotated[float | None, options.an_option(_MAX_SIZE)] = None
    min_singletons: Annotated[float | None, options.an_option(_SINGLETONS)] = None
    features: Annotated[bool, typer.Option("--features", help=_FEATURES)] = False


def calibrate(
    data: options.DataFiles,
    out: options.PredictorOut,
    score: Annotated[str, typer.Option(help=_SCORE)] = "repip",
    alpha: options.Alpha = 0.1,
    *,
    taxonomy: TaxonomyOptions,
    sharpening: SharpeningOptions,
    also: options.AlsoFiles = None,
    seed: options.DrawSeed = None,
    labels: options.LabelsFile = None,
    weights: options.WeightsFile = None,
    utility: options.UtilityFile = None,
    max_cost: Annotated[float | None, options.an_option(_MAX_COST)] = None,
    no_scores: Annotated[bool, typer.Option("--no-scores", help=_NO_SCORES)] = False,
    by: options.By = "",
    scheduler: options.Scheduler = None,
    columns: options.ColumnOptions,
) -> None:
    """Calibrate a conformal predictor on rows that the classifier was not trained on."""
    check_target(out, ".json")
    method = parse_method(score)
    _check_options(method, taxonomy, sharpening, weights, utility)
    if max_cost is not None and (utility is None or taxonomy.per or taxonomy.units or sharpening.sharpen or no_scores):
        raise InputError("Expected --max-cost with --utility alone", "leave --per, --units, --sharpen, --no-scores out")
    if also and sharpening.sharpen is None:
        raise InputError("Expected --sharpen with --also, got none", "add --sharpen split")
    if utility is not None:
        given = read_all(data, labels, columns.layout)
        given = join_models(given, also, columns.layout, labelled=True) if also else given
        if max_cost is not None:
            policy = with_provenance(bound_cost(given, utility, max_cost), given, by, labels, utility)
            policy.save(out)
            echo(f"{out}, made from {given.name}: {policy.describe()}")
            return
        keywords = _taxonomy_keywords(given, taxonomy) | _sharpening_keywords(given, sharpening) | {"seed": seed}
        decider = calibrate_decider(given, utility, alpha, keywords)
        with_provenance(decider, given, by, labels, utility, *(also or ())).save(out, scores=not no_scores)
        print_decider(decider, given, keywords, out)
        return
    plain = method.plain and weights is None and not taxonomy.units and sharpening.sharpen is None
    plain = plain and taxonomy.per not in ("interpolated", *OVERLAPPING) and taxonomy.confidence is None
    if scheduler is not None and (labels is not None or not plain):
        raise InputError("Expected --scheduler with tables and a score", "leave --labels and --weights out")
    source, note = read(data, labels, columns.layout, scheduler), ""
    source = join_models(in_memory(source), also, columns.layout, labelled=True) if also else source
    if plain and isinstance(source, Scan):
        predictor, right = _from_tables(source, method.score, alpha, seed, taxonomy, scheduler)
        if predictor.n_calibration > MOST_SCORES and not no_scores:
            note = "\nThe file leaves out the scores of so many rows"
            note += f": it serves only alpha={alpha:g}, without p-values."
    else:
        given = in_memory(source)
        predictor = _from_rows(given, method, alpha, seed, _taxonomy_keywords(given, taxonomy), weights, sharpening)
        right = None if sharpening.sharpen else accuracy(given.rows, given.truth())
    if no_scores and not predicts_in_batches(predictor):
        what = "Expected --no-scores with one threshold or thresholds per category, got another kind of predictor"
        raise InputError(what, "leave it out")
    predictor = with_provenance(predictor, source, by, labels, weights, *(also or ()))
    predictor.save(out, **({"scores": False} if no_scores else {}))
    echo(f"{out}, made from {source.name}: {predictor.describe()}{note}")
    _explain(predictor, right)


def _check_options(
    method: Method, taxonomy: TaxonomyOptions, sharpening: SharpeningOptions, weights: Path | None, utility: Path | None
) -> None:
    """Raise an InputError if an option needs another option that is missing, or if two options exclude each other."""
    (per, unseen, units, confidence), sharpen = taxonomy, sharpening.sharpen
    if confidence is not None and utility is not None:
        raise InputError("Expected --confidence without --utility, got both", "choose one of them")
    if method.sharpened or method.per is not None or method.nonempty:
        remedy = "sharpen it with --sharpen split" if method.sharpened else "pass the taxonomy as --per"
        raise InputError(f"Expected --score to be a score, got '{method}'", remedy)
    chosen = {"--units": units, "--sharpen": sharpen, "--weights": weights, "--per": per, "--utility": utility}
    given = [name for name, value in (chosen | {"ip/ms": method.combination}).items() if value]
    for pair in combinations(given, 2):
        if pair not in PAIRS:
            raise InputError(f"Expected {pair[0]} without {pair[1]}, got both", "choose one of them")
    if per in ("kind", "action") and utility is None:
        raise InputError(f"Expected --utility with --per {per}, got none", f"name the file with the utility per {per}")
    if unseen != "error" and "group" not in (per or ""):
        what = f"Expected --per group with --unseen {unseen}, got thresholds that do not depend on groups"
        raise InputError(what, "add --per group, or leave --unseen out")
    if sharpening.max_size is not None and sharpening.min_singletons is not None:
        raise InputError("Expected --max-size without --min-singletons, got both", "choose one of them")
    for name in ("learning_fraction", "max_size", "min_singletons"):
        if getattr(sharpening, name) is not None and sharpen != "split":
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"Expected --sharpen split with {option}, got {sharpen or 'none'}", "add it")
    if method.score.name != "socop" and (sharpening.max_size, sharpening.min_singletons) != (None, None):
        raise InputError(f"Expected socop with --max-size or --min-singletons, got {method}", "pass --score socop")
    if sharpening.features and sharpen is None:
        raise InputError("Expected --sharpen with --features, got none", "add --sharpen split")


def _from_rows(
    given: Data,
    method: Method,
    alpha: float,
    seed: int | None,
    categories: Any,
    weights: Path | None,
    sharpening: SharpeningOptions,
) -> Any:
    """Calibrate a predictor on data that fit into memory."""
    score: Any = method.combination or method.score
    for name in ("max_size", "min_singletons"):
        value = getattr(sharpening, name)
        score = score if value is None else f"socop({name}={value!r})"
    keywords: Any = {"weights": None if weights is None else read_column(weights, "weights")}
    keywords |= _sharpening_keywords(given, sharpening)
    return pippin.calibrate(given.rows, label_numbers(given), score, alpha, seed=seed, **categories, **keywords)


def _sharpening_keywords(given: Data, sharpening: SharpeningOptions) -> dict[str, Any]:
    """Return the keyword arguments of `calibrate`, for sets or decisions, that set the sharpener."""
    fraction = sharpening.learning_fraction
    sharpen = sharpening.sharpen if fraction is None else f"split(learning_fraction={fraction!r})"
    return {"sharpen": sharpen, "features": read_features(given) if sharpening.features else None}


def _taxonomy_keywords(given: Data, taxonomy: TaxonomyOptions) -> Any:
    """Return the keyword arguments of `pippin.calibrate` for Mondrian categories, or for clusters of rows ("units")."""
    by_group = "group" in (taxonomy.per or "")
    if taxonomy.units or by_group:
        user = "--units" if taxonomy.units else f"--per '{taxonomy.per}'"
        need_groups(given.name, given.groups is not None, user)
    sure = {} if taxonomy.confidence is None else {"confidence": taxonomy.confidence}
    if taxonomy.units:
        return {"units": given.groups} | sure
    return sure | {"per": taxonomy.per, "unseen": taxonomy.unseen, "groups": given.groups if by_group else None}


def _from_tables(
    given: Scan, score: pippin.Score, alpha: float, seed: int | None, taxonomy: TaxonomyOptions, scheduler: str | None
) -> tuple[Any, float | None]:
    """Calibrate on tables, in batches or on a cluster; return the predictor, and the classifier's accuracy or None."""
    categories: Any = {"per": taxonomy.per, "unseen": taxonomy.unseen}
    if scheduler is not None:
        from pippin import dask

        with connected(scheduler):
            return dask.calibrate(given, None, score, alpha, seed=seed, **categories), None
    if "group" in (taxonomy.per or ""):
        need_groups(given.name, given.has_groups, f"--per '{taxonomy.per}'")
    right = 0

    def count(batch: Batch) -> None:
        nonlocal right
        if batch.first < MOST_SCORES:
            right += round(batch.rows.n * accuracy(batch.rows, needed(batch.labels)))

    calibration = Calibration(score, alpha, classes=given.classes, seed=seed, **categories)
    predictor = calibrate_batched(given, calibration, count)
    n = predictor.n_calibration
    return predictor, right / n if n <= MOST_SCORES else None


def _explain(predictor: Any, right: float | None) -> None:
    """Print the thresholds by category, the effect of a sharpener, and a note if many sets will be empty.

    Empty sets are expected if the accuracy of the classifier, `right`, is above the requested coverage.
    """
    if right is not None and (note := explain_empty_sets(right, predictor.alpha, predictor.n_calibration, option=True)):
        echo(note)
    if predictor.per is not None:
        console().print(class_table(predictor))
    for sharpener in predictor.sharpeners[:1]:
        for each in sharpener.explain()[:3]:
            change = f"{each.before:.0%} without the sharpener, {each.after:.0%} with it"
            echo(f"  {visible(each.true)} predicted as {visible(each.predicted)}: {change}")
        if not sharpener.helps:
            echo("Out of fold the sharpener is not clearly better: calibrating on all rows without it may do as well.")
