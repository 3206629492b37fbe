"""The lines for Spark and for Ray in docs/scale.md, run as they stand there: do they give the same bits?

    python benchmarks/engines.py Spark        # needs pyspark and a Java
    python benchmarks/engines.py Ray          # needs ray

Neither engine is needed by anything else here.
"""

import os
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pippin

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"


def lines_for(engine: str) -> str:
    """The code of the page that follows the engine's name."""
    found = re.search(rf"^{engine}, from.*?\n\n((?:    .*\n)+)", PAGE.read_text(), re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found.group(1))


def started(engine: str, rows: list[Any]) -> dict[str, Any]:
    """What the lines take for granted."""
    if engine == "Spark":
        from pyspark import SparkContext

        return {"rows": SparkContext("local[2]", "pippin").parallelize(rows, len(rows))}
    import ray

    ray.init(num_cpus=2, include_dashboard=False)
    return {"rows": rows, "ray": ray}


if __name__ == "__main__":
    engine = sys.argv[1]
    data = pippin.load_example()
    rows = [(a, data.probs[a : a + 500], data.labels[a : a + 500]) for a in range(0, len(data.labels), 500)]
    code = lines_for(engine)
    whole = pippin.calibrate(data.probs, data.labels, "repip", 0.1, classes=data.classes)
    os.chdir(tempfile.mkdtemp())
    names: dict[str, Any] = {"pippin": pippin, "names": data.classes, **started(engine, rows)}
    for most in (1_000_000, 0):  # with and without the scores in the predictor
        pippin.distributed.Calibration.__init__.__kwdefaults__["most_scores"] = most
        names["calibration"] = pippin.distributed.Calibration("repip", 0.1, classes=data.classes, seed=0)
        exec(code, names)
        same = names["predictor"].content(scores=most > 0) == whole.content(scores=most > 0)
        assert same, "other bits"
        print(f"{engine}, {'with' if most else 'without'} scores: the same bits", flush=True)
