"""`pippin calibrate`: a predictor from probabilities and labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pippin.cli.options import Alpha, DataFile, DrawSeed, LabelsFile

if TYPE_CHECKING:
    from pippin.conditional import ConditionalPredictor

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
    score: Annotated[str, typer.Option(help="The score, such as repip or raps(lam=0.1).")] = "repip",
    alpha: Alpha = 0.1,
    per: Per = None,
    unseen: Unseen = "error",
    seed: DrawSeed = None,
    labels: LabelsFile = None,
    no_scores: Annotated[
        bool, typer.Option("--no-scores", help="Leave the calibration scores out of the file.")
    ] = False,
) -> None:
    """Turn data that the classifier was not trained on into a predictor."""
    import pippin
    from pippin.cli.outputs import check_target
    from pippin.conditional import ConditionalPredictor
    from pippin.tables import need_groups, read_data, writing

    check_target(out, ".json")
    _check(per, unseen)
    given = read_data(data, labels)
    options: dict[str, Any] = {"per": per}
    if per is not None and "group" in per:
        need_groups(given, f"--per '{per}'")
        options |= {"groups": given.groups, "unseen": unseen}
    predictor: Any = pippin.calibrate(given.rows, given.truth(), score, alpha, seed=seed, **options)
    with writing(out):
        predictor.save(out, scores=not no_scores)
    if isinstance(predictor, ConditionalPredictor):
        _show(predictor, given.name, out)
    else:
        print(
            f"{predictor.score} with threshold {predictor.threshold:.6g}, from {predictor.n_calibration:,} rows of "
            f"{given.name}, is in {out}: its sets hold the true class {100 * (1 - predictor.alpha):g} % of the time."
        )


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
    from pippin.conditional import PER, UNSEEN

    if per is not None and per not in PER:
        raise ValueError(f"Expected --per to be one of {', '.join(map(repr, PER))}, got {per!r}: choose one of them.")
    if unseen not in UNSEEN:
        raise ValueError(f"Expected --unseen to be error or marginal, got {unseen!r}: choose one of them.")
