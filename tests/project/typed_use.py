"""User script that mypy checks strictly, and that a test runs."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pippin
import pippin.testing


def steep(ranks: NDArray[np.float64], power: float) -> dict[str, float | NDArray[np.float64]]:
    """Return PIP with weights that decrease faster."""
    return {"constant": 1.0, "own": -1.0, "above": ranks**-power}


def sets_by_every_keyword() -> list[pippin.PredictionSets]:
    """Chain calibrate and predict for each keyword."""
    data = pippin.load_example()
    probs, labels, new = data.probs[:2000], data.labels[:2000], data.probs[2000:2100]
    rows, ratios = np.arange(2000), pippin.shift.label_ratios(probs, labels, new)
    kinds = {name: "a" if number % 2 else "b" for number, name in enumerate(data.classes)}
    sharper = pippin.sharpen(data.probs[3000:3500], data.labels[3000:3500], features=data.probs[3000:3500, :2])
    return [
        pippin.calibrate(probs, labels).predict(new),
        pippin.calibrate(probs, labels, "aps", 0.2, seed=1).predict(new, seed=2, nonempty=True),
        pippin.calibrate(np.log(probs + 1e-9), labels, from_logits=True).predict(np.log(new + 1e-9), from_logits=True),
        pippin.calibrate(probs, labels, per="class", classes=data.classes).predict(new),
        pippin.calibrate(probs, labels, alpha={"a": 0.1, "b": 0.2}, per=kinds, classes=data.classes).predict(new),
        pippin.calibrate(probs, labels, groups=rows % 2, unseen="marginal").predict(new, groups=np.arange(100) % 3),
        pippin.calibrate(probs, labels, units=rows // 4).predict(new),
        pippin.calibrate(probs, labels, weights=1 + probs[:, 0]).predict(new, weights=1 + new[:, 0]),
        pippin.calibrate(probs, labels, weights=ratios).predict(new, weights=ratios),
        pippin.calibrate(probs, labels, folds=rows % 2).predict([new, new]),
        pippin.calibrate(probs, labels, sharpen=sharper, features=probs[:, :2]).predict(new, features=new[:, :2]),
        pippin.calibrate(probs, labels, "socop", sharpen=True).predict(new),
        pippin.calibrate(probs, labels, sharpen="mixture").predict(new, seed=1),
        pippin.calibrate(probs, labels, confidence=0.9).at(0.2).predict(new),
        pippin.calibrate(probs, labels, "ip/ms").predict(new),
    ]


def main(folder: Path) -> str:
    data = pippin.load_example()
    pippin.scores.register("steep", pippin.scores.Family({"power": 2.0}, steep))
    fair = pippin.calibrate(data.probs, data.labels, "steep(power=3)", 0.1, classes=data.classes, per="class")
    thresholds: list[float] = fair.table()["threshold"].to_list()
    by_group = pippin.calibrate(data.probs, data.labels, groups=np.arange(len(data.labels)) % 2)
    one = pippin.calibrate(data.probs, data.labels, pippin.scores.parse("steep"))
    one.save(folder / "predictor.json")
    loaded: pippin.ConformalPredictor = pippin.load(folder / "predictor.json")
    names: list[list[str | int]] = loaded.predict(data.probs[:10]).labels()
    half = pippin.calibrate(data.probs[::2], data.labels[::2], "steep")
    evaluation: pippin.Evaluation = pippin.evaluate(half, data.labels[1::2], probs=data.probs[1::2])
    covered = all(pippin.metrics.mean_size(sets) > 0 for sets in sets_by_every_keyword())
    return (
        f"{len(thresholds)} {by_group.takes == {'groups'}} {len(names)} {one.threshold == loaded.threshold} {covered} "
        f"{evaluation.coverage > 0.89} {loaded.describe()}"
    )
