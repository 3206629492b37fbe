"""Compiles what the tests call, before they begin: several processes would do it at the same time, each for itself.

    PYTHONPATH=tests python3 -m support.compiled

That is all that `warm_up` loads, and what counts splits, of few rows and of many.
"""

import warnings

import numpy as np

import pippin
from pippin._compare.many_rows import counter_of_many
from pippin._compare.method_splits import tally_in_blocks
from pippin._compare.splits import draw_split
from support.trials import trial_of


def count_splits() -> None:
    """Scores with and without u, few classes and many, in either precision."""
    scores = [pippin.pip(), pippin.aps()]
    rng = np.random.default_rng(0)
    for n_classes, kind in ((3, np.float32), (3, np.float64), (300, np.float32), (300, np.float64)):
        probs, labels = rng.dirichlet(np.ones(n_classes), 200).astype(kind), rng.integers(0, n_classes, 200)
        pippin.compare(probs, labels, scores, splits=2)
        trial = trial_of(probs, labels, groups=labels % 2)
        counter_of_many(trial, scores, lambda done: None)(0)
        tally_in_blocks(trial, dict(enumerate(scores)), np.ones(2), draw_split(trial, 0))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    pippin.warm_up()
    count_splits()
