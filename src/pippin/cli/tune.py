"""`pippin tune`: the score for a preference, chosen on some rows and calibrated on the others."""

from typing import Annotated, NamedTuple

import typer

from pippin.cli.inputs import read_or_example
from pippin.cli.options import Alpha, Columns, DataFile, LabelsFile, PredictorOut, Splits, SplitSeed, an_option

Prefer = Annotated[str, typer.Option(help="singletons for the most sets with one class, size for the smallest sets.")]
MaxSize = Annotated[float | None, an_option("With singletons: the size that is not to be exceeded.")]
Sharpen = Annotated[
    bool, typer.Option("--sharpen", help="Try SOCOP behind a sharpener too, learnt on rows that choose.")
]
Fraction = Annotated[float, typer.Option(help="The share of rows that chooses; the rest calibrates.")]


class Preference(NamedTuple):
    """What the score is chosen for."""

    prefer: Prefer = "singletons"
    max_size: MaxSize = None


def tune(
    data: DataFile,
    out: PredictorOut,
    *,
    preference: Preference,
    sharpen: Sharpen = False,
    alpha: Alpha = 0.1,
    tuning_fraction: Fraction = 0.5,
    splits: Splits = 100,
    seed: SplitSeed = 0,
    labels: LabelsFile = None,
    columns: Columns,
) -> None:
    """Choose a score for a preference on some rows, and calibrate it on the others."""
    import pippin
    from pippin._compare.tuning import CANDIDATES, SHARPENED
    from pippin.cli.outputs import check_target
    from pippin.tables.reading import known

    check_target(out, ".json")
    given = read_or_example(data, labels, columns.layout)
    tuned = pippin.tune(
        given.rows,
        known(given),
        (*CANDIDATES, *SHARPENED) if sharpen else CANDIDATES,
        alpha,
        **preference._asdict(),
        tuning_fraction=tuning_fraction,
        splits=splits,
        seed=seed,
    )
    predictor = tuned.calibrate(seed=seed)
    predictor.save(out)
    print(f"{tuned.method} is the choice for {tuned.preference}, on {len(tuned.tuning_rows):,} rows of {given.name}.")
    print(f"{out}, made from the other {predictor.n_calibration:,}: {predictor.describe()}")
