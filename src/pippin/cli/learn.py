"""`pippin learn`: what the classifier confuses, learnt on some rows, and a predictor behind it on the others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pippin.cli.options import Alpha, DataFile, LabelsFile, SplitSeed, read_or_example, takes_table

if TYPE_CHECKING:
    from pippin.tables.layout import Layout

Way = Annotated[
    str,
    typer.Option(
        help="split: some rows learn, the others calibrate. mixture: five sharpeners, each object draws one. "
        "cross: the five together, with a weaker proof."
    ),
]
Fraction = Annotated[float, typer.Option(help="With split, the share of rows that learns; the rest calibrates.")]
MaxSize = Annotated[
    float | None,
    typer.Option(help="With socop: choose its price for the most singletons at this mean size.", show_default=False),
]
MinSingletons = Annotated[
    float | None,
    typer.Option(help="With socop: choose its price for the smallest sets, this share single.", show_default=False),
]


Features = Annotated[
    bool,
    typer.Option("--features", help="Show the sharpener the features of the data too, as train --features writes."),
]


@takes_table
def learn(
    data: DataFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The predictor, .json.", show_default=False)],
    score: Annotated[str, typer.Option(help="The score behind the sharpener.")] = "socop",
    alpha: Alpha = 0.1,
    way: Way = "split",
    learning_fraction: Fraction = 0.5,
    max_size: MaxSize = None,
    min_singletons: MinSingletons = None,
    features: Features = False,
    seed: SplitSeed = 0,
    labels: LabelsFile = None,
    layout: "Layout | None" = None,
) -> None:
    """Sharpen the probabilities on some rows, and calibrate a predictor behind that on the others."""
    import pippin
    from pippin.cli.outputs import check_target
    from pippin.tables.reading import known, read_features

    check_target(out, ".json")
    given = read_or_example(data, labels, layout)
    asked: Any = way
    predictor: pippin.SharpenedPredictor | pippin.SharpenedMixture = pippin.learn(
        given.rows,
        known(given),
        score,
        alpha,
        way=asked,
        learning_fraction=learning_fraction,
        max_size=max_size,
        min_singletons=min_singletons,
        features=read_features(given) if features else None,
        seed=seed,
    )
    predictor.save(out)
    print(f"{out}, made from {given.name}: {predictor.describe()}")
    sharpener = (predictor if isinstance(predictor, pippin.SharpenedPredictor) else predictor.parts[0]).sharpeners[0]
    for one in sharpener.explain()[:3]:
        print(f"  {one.true} taken for {one.predicted}: {100 * one.before:.0f} % before, {100 * one.after:.0f} % after")
    if not sharpener.helps:
        print("It wins nothing clear out of fold: pippin calibrate on all rows may do as well.")
