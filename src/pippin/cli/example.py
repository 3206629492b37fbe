"""`pippin example`: every score of the paper on the embedded seedlings."""

import numpy as np
from rich.console import Console
from rich.table import Table

import pippin

ALPHA = 0.1


def example() -> None:
    """Calibrate every score of the paper on the embedded example and compare their sets."""
    console = Console()
    data = pippin.load_example()
    order = np.random.default_rng(0).permutation(len(data.labels))
    calibration, test = np.split(order, [round(0.45 * len(order))])
    console.print(
        f"A network names the species of {len(data.classes)} kinds of seedlings. On {len(calibration):,} of its "
        f"answers each score is calibrated so that its sets hold the true species {1 - ALPHA:.0%} of the time; "
        f"the other {len(test):,} answers test that.\n"
    )
    table = Table()
    for heading in ("score", "coverage", "classes per set", "sets with one class", "empty sets"):
        table.add_column(heading, justify="left" if heading == "score" else "right")
    for score in pippin.PAPER_SCORES:
        predictor = pippin.calibrate(data.probs[calibration], data.labels[calibration], score, ALPHA, data.classes, 0)
        sets = predictor.predict(data.probs[test], seed=1)
        result = pippin.evaluate(sets, data.labels[test])
        table.add_row(
            str(score),
            f"{result.coverage:.3f}",
            f"{result.efficiency:.2f}",
            f"{result.informativeness:.1%}",
            f"{result.empty_rate:.1%}",
        )
    console.print(table)
    console.print(f"Some sets by {score}, most probable first:")
    for i in range(6):
        truth = data.classes[data.labels[test[i]]]
        mark = "✓" if truth in sets[i] else "✗"
        console.print(f"  {mark} {truth:<26} {{{', '.join(map(str, sets[i]))}}}")
