"""Print seconds and extra memory of every score on one simulated matrix, as JSON.

python benchmarks/matrix.py ROWS CLASSES REPEATS
"""

import json
import sys
from functools import partial

from measure import extra_memory, interleaved

import pippin
from data import made

SCORES = ("ip", "margin", "aps(randomized=False)", "raps(randomized=False)", "pip", "repip", "socop")


def measure(n: int, n_classes: int, repeats: int) -> dict:
    """Measure one read of the matrix; per score, seconds and bytes of calibrate and predict, and the mean set size."""
    pippin.warm_up()
    probs, labels = made(n, n_classes)
    result = {"rows": n, "classes": n_classes, "bytes": probs.nbytes, "scores": {}}
    reads = []
    for score in SCORES:
        predictor = pippin.calibrate(probs, labels, score)
        works = {
            "one_read": probs.sum,
            "calibrate": partial(pippin.calibrate, probs, labels, score),
            "predict": partial(predictor.predict, probs),
        }
        times = interleaved(works, repeats)
        reads.append(times.pop("one_read"))
        result["scores"][score] = {**times, "mean_size": float(predictor.predict(probs).sizes.mean())}
        for name in times:
            grown, result["memory_read_from"] = extra_memory(works[name])
            result["scores"][score][f"{name}_bytes"] = grown
    result["one_read"] = sorted(reads)[len(reads) // 2]
    return result


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))
