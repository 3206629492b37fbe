"""`pippin calibrate`: a predictor from probabilities and labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pippin.cli.options import Alpha, DataFile, DrawSeed, LabelsFile, WeightsFile

if TYPE_CHECKING:
    from pippin._predictors.conditional import ConditionalPredictor
    from pippin.tables.reading import Data

Per = Annotated[
    str | None,
    typer.Option(
        help="What the guarantee holds for, beyond all objects together: class, group, 'class and group', cluster "
        "(rare classes share their examples) or rc3p (per class, with a limit on the rank too).",
        show_default=False,
    ),
]
Unseen = Annotated[
    str, typer.Option(help="What predict does with a group it has not seen: error, or the marginal threshold.")
]


def calibrate(
    data: DataFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The predictor, .json.", show_default=False)],
    score: Annotated[
        str, typer.Option(help="The score, such as repip or raps(lam=0.1); or ip/ms, ip/ms sum.")
    ] = "repip",
    alpha: Alpha = 0.1,
    per: Per = None,
    unseen: Unseen = "error",
    seed: DrawSeed = None,
    labels: LabelsFile = None,
    weights: WeightsFile = None,
    no_scores: Annotated[
        bool, typer.Option("--no-scores", help="Leave the calibration scores out of the file.")
    ] = False,
) -> None:
    """Turn data that the classifier was not trained on into a predictor."""
    from pippin._predictors.conditional import ConditionalPredictor
    from pippin._predictors.marginal import Predictor
    from pippin.cli.outputs import check_target
    from pippin.tables.reading import read_data
    from pippin.tables.writing import naming_target

    check_target(out, ".json")
    _check(per, unseen)
    given = read_data(data, labels)
    predictor = _calibrated(given, score, alpha, seed, per, unseen, weights, no_scores)
    with naming_target(out):
        predictor.save(
            out, **({"scores": not no_scores} if isinstance(predictor, Predictor | ConditionalPredictor) else {})
        )
    if isinstance(predictor, ConditionalPredictor):
        _show(predictor, given.name, out)
        return
    unsure = ", which is aimed at and not guaranteed" if getattr(predictor, "guarantee", "") == "none" else ""
    print(
        f"{_told(predictor)}, from {predictor.n_calibration:,} rows of {given.name}, is in {out}: "
        f"its sets hold the true class {100 * (1 - predictor.alpha):g} % of the time{unsure}."
    )


def _calibrated(
    given: "Data",
    score: str,
    alpha: float,
    seed: int | None,
    per: str | None,
    unseen: str,
    weights: Path | None,
    no_scores: bool,
) -> Any:
    """The predictor of the kind that the options ask for."""
    import pippin
    from pippin.tables.reading import need_groups, read_weights

    rows, truth, chosen = given.rows, given.truth(), pippin.parse_method(score)
    if chosen.per is not None or chosen.nonempty:
        raise ValueError(f"Expected --score to be a score, got {score!r}: ask for the rest with --per.")
    if per is not None and (weights is not None or chosen.margin is not None):
        raise ValueError(f"Expected --per without {'--weights' if weights else 'ip/ms'}, got both: choose one of them.")
    if chosen.margin is not None:
        if weights is not None:
            raise ValueError("Expected --weights with a score, got ip/ms: choose another score.")
        return pippin.calibrate_combination(rows, truth, alpha, chosen.margin, seed=seed)
    if weights is not None:
        if no_scores:
            raise ValueError("Expected --weights without --no-scores: a weighted predictor needs its scores.")
        return pippin.calibrate_weighted(rows, truth, read_weights(weights), chosen.score, alpha, seed=seed)
    options: dict[str, Any] = {"per": per}
    if per is not None and "group" in per:
        need_groups(given, f"--per '{per}'")
        options |= {"groups": given.groups, "unseen": unseen}
    return pippin.calibrate(rows, truth, chosen.score, alpha, seed=seed, **options)


def _told(predictor: Any) -> str:
    if hasattr(predictor, "margin_threshold"):
        return (
            f"ip/ms {predictor.guarantee} with the thresholds {predictor.margin_threshold:.6g} (margin) and "
            f"{predictor.ip_threshold:.6g} (ip)"
        )
    if hasattr(predictor, "weights"):
        return f"{predictor.score} with weights worth {predictor.effective_sample_size:,.0f} rows"
    return f"{predictor.score} with threshold {predictor.threshold:.6g}"


def _show(predictor: "ConditionalPredictor", data: str, out: Path) -> None:
    from pippin.cli.printing import class_table, console

    how = "by RC3P" if predictor.per == "rc3p" else f"per {predictor.per}"
    whom = {"rc3p": "class", "cluster": "cluster of classes"}.get(predictor.per, predictor.per)
    print(
        f"{predictor.score} {how}, from {predictor.n_calibration:,} rows of {data}, is in {out}: for every {whom}, its "
        f"sets hold the true class {100 * (1 - predictor.alpha):g} % of the time."
    )
    console().print(class_table(predictor))


def _check(per: str | None, unseen: str) -> None:
    from pippin._predictors.conditional import PER, UNSEEN

    if per is not None and per not in PER:
        raise ValueError(f"Expected --per to be one of {', '.join(map(repr, PER))}, got {per!r}: choose one of them.")
    if unseen not in UNSEEN:
        raise ValueError(f"Expected --unseen to be error or marginal, got {unseen!r}: choose one of them.")
    if unseen != "error" and "group" not in (per or ""):
        raise ValueError(
            f"Expected --per group beside --unseen {unseen}, got thresholds that know no groups: ask for it, or leave "
            "--unseen out."
        )
