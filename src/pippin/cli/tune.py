"""`pippin tune`: the score for a preference, chosen on some rows and calibrated on the others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pippin.cli.options import Alpha, DataFile, LabelsFile, Splits, SplitSeed, read_or_example, takes_table

if TYPE_CHECKING:
    from pippin.tables.layout import Layout

Prefer = Annotated[str, typer.Option(help="singletons for the most sets with one class, size for the smallest sets.")]
MaxSize = Annotated[
    float | None, typer.Option(help="With singletons: the size that is not to be exceeded.", show_default=False)
]
Sharpen = Annotated[
    bool, typer.Option("--sharpen", help="Try SOCOP behind a sharpener too, learnt on rows that choose.")
]
Fraction = Annotated[float, typer.Option(help="The share of rows that chooses; the rest calibrates.")]


@takes_table
def tune(
    data: DataFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The predictor, .json.", show_default=False)],
    prefer: Prefer = "singletons",
    max_size: MaxSize = None,
    sharpen: Sharpen = False,
    alpha: Alpha = 0.1,
    tuning_fraction: Fraction = 0.5,
    splits: Splits = 100,
    seed: SplitSeed = 0,
    labels: LabelsFile = None,
    layout: "Layout | None" = None,
) -> None:
    """Choose a score for a preference on some rows, and calibrate it on the others."""
    import pippin
    from pippin._compare.tuning import CANDIDATES, SHARPENED
    from pippin.cli.outputs import check_target
    from pippin.tables.reading import known

    check_target(out, ".json")
    given = read_or_example(data, labels, layout)
    chosen: Any = prefer
    tuned = pippin.tune(
        given.rows,
        known(given),
        (*CANDIDATES, *SHARPENED) if sharpen else CANDIDATES,
        alpha,
        prefer=chosen,
        max_size=max_size,
        tuning_fraction=tuning_fraction,
        splits=splits,
        seed=seed,
    )
    predictor = tuned.calibrate(seed=seed)
    predictor.save(out)
    print(f"{tuned.method} is the choice for {tuned.preference}, on {len(tuned.tuning_rows):,} rows of {given.name}.")
    print(f"{out}, made from the other {predictor.n_calibration:,}: {predictor.describe()}")
