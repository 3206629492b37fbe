"""`pippin learn`: what the classifier confuses, learnt on some rows, and a predictor behind it on the others."""

from typing import Annotated, NamedTuple

import typer

from pippin.cli.inputs import read_or_example
from pippin.cli.options import Alpha, Columns, DataFile, LabelsFile, PredictorOut, SplitSeed, an_option

Way = Annotated[
    str,
    typer.Option(
        help="split: some rows learn, the others calibrate. mixture: five sharpeners, each object draws one. "
        "cross: the five together, with a weaker proof."
    ),
]
Fraction = Annotated[float, typer.Option(help="With split, the share of rows that learns; the rest calibrates.")]
MaxSize = Annotated[float | None, an_option("With socop: choose its price for the most singletons at this mean size.")]
MinSingletons = Annotated[
    float | None, an_option("With socop: choose its price for the smallest sets, this share single.")
]
Features = Annotated[
    bool,
    typer.Option("--features", help="Show the sharpener the features of the data too, as train --features writes."),
]


class Division(NamedTuple):
    """Which rows learn, and what SOCOP's price is chosen for on them."""

    way: Way = "split"
    learning_fraction: Fraction = 0.5
    max_size: MaxSize = None
    min_singletons: MinSingletons = None


def learn(
    data: DataFile,
    out: PredictorOut,
    score: Annotated[str, typer.Option(help="The score behind the sharpener.")] = "socop",
    alpha: Alpha = 0.1,
    *,
    division: Division,
    features: Features = False,
    seed: SplitSeed = 0,
    labels: LabelsFile = None,
    columns: Columns,
) -> None:
    """Sharpen the probabilities on some rows, and calibrate a predictor behind that on the others."""
    import pippin
    from pippin.cli.outputs import check_target
    from pippin.tables.reading import known, read_features

    check_target(out, ".json")
    given = read_or_example(data, labels, columns.layout)
    predictor: pippin.ConformalPredictor = pippin.learn(
        given.rows,
        known(given),
        score,
        alpha,
        **division._asdict(),
        features=read_features(given) if features else None,
        seed=seed,
    )
    predictor.save(out)
    print(f"{out}, made from {given.name}: {predictor.describe()}")
    sharpener = (predictor if isinstance(predictor, pippin.ConformalPredictor) else predictor.parts[0]).sharpeners[0]
    for one in sharpener.explain()[:3]:
        print(f"  {one.true} taken for {one.predicted}: {100 * one.before:.0f} % before, {100 * one.after:.0f} % after")
    if not sharpener.helps:
        print("It wins nothing clear out of fold: pippin calibrate on all rows may do as well.")
