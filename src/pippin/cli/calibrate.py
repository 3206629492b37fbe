"""`pippin calibrate`: a predictor from probabilities and labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pippin._runtime.errors import InputError
from pippin.cli.cluster import Scheduler, on_cluster
from pippin.cli.inputs import at_once, read_or_scan
from pippin.cli.options import (
    Alpha,
    Columns,
    DataFiles,
    DrawSeed,
    LabelsFile,
    PredictorOut,
    UtilityFile,
    WeightsFile,
    an_option,
)

if TYPE_CHECKING:
    from pippin._conformal.predictor import ConformalPredictor
    from pippin._theory.scores import Score
    from pippin._validation.batched import Batch
    from pippin.tables.reading import Data
    from pippin.tables.scanning import Scan

LEFT_OUT = "Its file leaves out the scores of so many rows: it serves alpha={:g} alone, and has no p-values."
Per = Annotated[
    str | None,
    an_option(
        "What the guarantee holds for, beyond all objects together: class, group, 'class and group', cluster "
        "(rare classes share their examples) or rc3p (per class, with a limit on the rank too); with --utility also "
        "kind."
    ),
]
Unseen = Annotated[
    str, typer.Option(help="What predict does with a group it has not seen: error, or the marginal threshold.")
]


Units = Annotated[
    bool,
    typer.Option(
        "--units",
        help="The groups of the data are units that come as a whole, such as the photograph of each window: the "
        "guarantee is for a row of a new one.",
    ),
]


def calibrate(
    data: DataFiles,
    out: PredictorOut,
    score: Annotated[
        str, typer.Option(help="The score, such as repip or raps(lam=0.1); or ip/ms, ip/ms(variant=sum).")
    ] = "repip",
    alpha: Alpha = 0.1,
    per: Per = None,
    unseen: Unseen = "error",
    units: Units = False,
    seed: DrawSeed = None,
    labels: LabelsFile = None,
    weights: WeightsFile = None,
    utility: UtilityFile = None,
    no_scores: Annotated[
        bool, typer.Option("--no-scores", help="Leave the calibration scores out of the file.")
    ] = False,
    scheduler: Scheduler = None,
    *,
    columns: Columns,
) -> None:
    """Turn data that the classifier was not trained on into a predictor."""
    from pippin._compare.methods import parse_method
    from pippin._conformal.predictor import ConformalPredictor
    from pippin._distributed.calibration import MOST_SCORES
    from pippin._engine.dispatch import accuracy
    from pippin.cli.outputs import check_target
    from pippin.cli.printing import class_table, console
    from pippin.tables.reading import Data

    check_target(out, ".json")
    if units and (per, weights, utility) != (None, None, None):
        raise InputError("Expected --units without --per, --weights and --utility, got both", "choose one of them")
    if utility is not None:
        from pippin.cli.decide import calibrate_decider

        given = at_once(read_or_scan(data, labels, columns.layout))
        calibrate_decider(given, utility, alpha, out, per, unseen, weights, no_scores)
        return
    _check(per, unseen)
    method = parse_method(score)
    if scheduler is not None:
        if labels is not None or weights is not None or units or not method.plain:
            raise InputError("Expected --scheduler with tables and a score", "leave --labels and --weights out")
        import pippin.dask

        with on_cluster(scheduler, data, columns.layout) as tables:
            far = pippin.dask.calibrate(tables, None, method.score, alpha, seed=seed, per=per, unseen=unseen)
        _save(far, out, no_scores)
        print(f"{out}, made from {tables.name}: {far.describe()}")
        if far.n_calibration > MOST_SCORES and not no_scores:
            print(LEFT_OUT.format(alpha))
        return
    found = read_or_scan(data, labels, columns.layout)
    right: float | None
    if units:
        given = at_once(found)
        predictor = _by_units(given, score, alpha, seed)
        right = accuracy(given.rows, given.truth())
    elif isinstance(found, Data) or weights is not None or not method.plain:
        given = at_once(found)
        predictor = _calibrated(given, score, alpha, seed, per, unseen, weights)
        right = accuracy(given.rows, given.truth())
    else:
        predictor, right = _from_tables(found, method.score, alpha, seed, per, unseen)
    _save(predictor, out, no_scores)
    print(f"{out}, made from {found.name}: {predictor.describe()}")
    if not isinstance(found, Data) and predictor.n_calibration > MOST_SCORES and not no_scores:
        print(LEFT_OUT.format(alpha))
    asked = 1 - predictor.alpha
    if right is not None and right > asked:
        print(
            f"The classifier is right {100 * right:.3g} % of the time, more often than the {100 * asked:g} % asked "
            f"for: some sets will be empty. Ask for --alpha {1 - right:.1g} or less, or predict with --non-empty."
        )
    if isinstance(predictor, ConformalPredictor):
        console().print(class_table(predictor))


def _from_tables(
    given: "Scan", score: "Score", alpha: float, seed: int | None, per: str | None, unseen: str
) -> "tuple[ConformalPredictor, float | None]":
    """The predictor of tables, read in batches, and how often the classifier is right, if that was counted."""
    from pippin._distributed.calibration import MOST_SCORES, Calibration, calibrate_batched
    from pippin._engine.dispatch import accuracy
    from pippin.tables.reading import no_groups

    if per is not None and "group" in per and not given.has_groups:
        raise no_groups(given.name, f"--per '{per}'")
    calibration = Calibration(score, alpha, classes=given.classes, per=per, unseen=unseen, seed=seed)
    right = 0.0

    def count(batch: "Batch") -> None:
        nonlocal right
        if batch.first < MOST_SCORES and batch.labels is not None:
            right += batch.rows.n * accuracy(batch.rows, batch.labels)

    predictor = calibrate_batched(given, calibration, count)
    n = predictor.n_calibration
    return predictor, right / n if n <= MOST_SCORES else None


def _calibrated(
    given: "Data", score: str, alpha: float, seed: int | None, per: str | None, unseen: str, weights: Path | None
) -> "ConformalPredictor":
    """The predictor of the kind that the options ask for."""
    import pippin
    from pippin.tables.reading import known, need_groups, read_weights

    rows, truth, chosen = given.rows, known(given), pippin.scores.parse_method(score)
    if chosen.sharpened:
        raise InputError(f"Expected --score to be a score, got {score!r}", "sharpen it with pippin learn")
    if chosen.per is not None or chosen.nonempty:
        raise InputError(f"Expected --score to be a score, got {score!r}", "ask for the rest with --per")
    if per is not None and (weights is not None or chosen.combination is not None):
        both = "--weights" if weights else "ip/ms"
        raise InputError(f"Expected --per without {both}, got both", "choose one of them")
    if chosen.combination is not None:
        if weights is not None:
            raise InputError("Expected --weights with a score, got ip/ms", "choose another score")
        return pippin.calibrate_combination(rows, truth, alpha, variant=chosen.combination.variant, seed=seed)
    if weights is not None:
        return pippin.calibrate_weighted(rows, truth, read_weights(weights), chosen.score, alpha, seed=seed)
    by_group = per is not None and "group" in per
    if by_group:
        need_groups(given, f"--per '{per}'")
    options: Any = {"per": per, "unseen": unseen, "groups": given.groups if by_group else None}
    predictor: ConformalPredictor = pippin.calibrate(rows, truth, chosen.score, alpha, seed=seed, **options)
    return predictor


def _by_units(given: "Data", score: str, alpha: float, seed: int | None) -> "ConformalPredictor":
    import pippin
    from pippin.tables.reading import known, need_groups

    need_groups(given, "--units")
    photos: Any = given.groups
    return pippin.calibrate(given.rows, known(given), score, alpha, seed=seed, units=photos)


def _save(predictor: "ConformalPredictor", out: Path, no_scores: bool) -> None:
    from pippin._conformal.predictor import ConformalPredictor

    if not no_scores:
        predictor.save(out)
    elif isinstance(predictor, ConformalPredictor):
        predictor.save(out, scores=False)
    else:
        raise InputError(
            f"Expected --no-scores with one threshold or several, got a {type(predictor).__name__}",
            "leave it out, such a predictor has none or needs its scores",
        )


def _check(per: str | None, unseen: str) -> None:
    from pippin._conformal.mondrian import PER, UNSEEN

    if per is not None and per not in PER:
        raise InputError(f"Expected --per to be one of {', '.join(map(repr, PER))}, got {per!r}", "choose one of them")
    if unseen not in UNSEEN:
        raise InputError(f"Expected --unseen to be error or marginal, got {unseen!r}", "choose one of them")
    if unseen != "error" and "group" not in (per or ""):
        raise InputError(
            f"Expected --per group beside --unseen {unseen}, got thresholds that know no groups",
            "ask for it, or leave --unseen out",
        )
