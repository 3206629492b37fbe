"""A user's script, which mypy checks strictly with the package, and the tests run."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pippin
import pippin.testing


def steep(ranks: NDArray[np.float64], power: float) -> dict[str, float | NDArray[np.float64]]:
    """PIP with weights that fall faster."""
    return {"constant": 1.0, "own": -1.0, "above": ranks**-power}


def main(folder: Path) -> str:
    data = pippin.load_example()
    pippin.scores.register("steep", pippin.scores.Family({"power": 2.0}, steep))
    fair = pippin.calibrate(data.probs, data.labels, "steep(power=3)", 0.1, classes=data.classes, per="class")
    thresholds: list[float] = fair.table()["threshold"].to_list()
    by_group = pippin.calibrate(data.probs, data.labels, groups=np.arange(len(data.labels)) % 2)
    one = pippin.calibrate(data.probs, data.labels, pippin.scores.parse("steep"))
    one.save(folder / "predictor.json")
    loaded: pippin.ConformalPredictor = pippin.load(folder / "predictor.json")
    sets = loaded.predict(data.probs[:10], seed=0)
    names: list[list[str | int]] = sets.labels()
    same: bool = one.threshold == (loaded.threshold if isinstance(loaded, pippin.Predictor) else None)
    return f"{len(thresholds)} {by_group.takes == {'seed', 'groups'}} {len(names)} {same} {loaded.describe()}"
