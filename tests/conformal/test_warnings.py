"""Warnings: emitted once, at the caller's line, and independent between threads."""

import os
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pippin
import pippin._engine.numba_engine.engine  # numba's import adds a warning filter, so import it first
from support.rows import made_rows
from support.trials import study_of

METHODS = ("ip per cluster", "ip/ms", "ip per class", "ip rc3p")


def few_rows():
    """Return too few rows for clusters of classes, for singletons of the margin score, and of class 5."""
    probs = made_rows("spread", 60, 6, 0)
    labels = np.random.default_rng(1).integers(0, 5, 60)
    labels[:2] = 5
    return probs, labels


def count_warnings(caught):
    """Count the warnings by text, and by beginning for those of a comparison."""
    return Counter(str(one.message).split(":")[0] for one in caught)


@pytest.mark.parametrize("others", [0, 3])
def test_comparisons_in_threads_do_not_change_warning_filters(others):
    """Filters are unchanged, warnings of this thread are emitted, and each comparison emits its own."""
    probs, labels = few_rows()

    def compare():
        found = pippin.compare(probs, labels, METHODS, 0.2, splits=60)
        found.conditional()
        study_of(probs, labels, ["ip", *METHODS], 2, alpha=0.2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare()  # while it compiles, numba changes the filters of all threads
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(max(others, 1)) as pool:
        warnings.simplefilter("always")
        filters, show, said = list(warnings.filters), warnings.showwarning, 0
        running = [pool.submit(compare) for _ in range(others)]
        while not said or not all(one.done() for one in running):
            warnings.warn("ours", stacklevel=1)
            said += 1
            assert warnings.filters == filters
            assert warnings.showwarning is show
            os.sched_yield()
        for one in running:
            one.result()
    counts = count_warnings(caught)
    assert counts.pop("ours") == said
    assert sum(counts.values()) == others * (3 + 3)  # clusters, singletons and a rare class, from compare and study
    assert counts["In 60 splits"] == 2 * others
    assert counts["In 2 splits"] == 2 * others


def test_equal_notes_of_many_splits_give_one_warning():
    """The warning points at the line that calls compare, and tables of the comparison emit none."""
    probs, labels = few_rows()
    with pytest.warns(UserWarning, match=r"In 30 splits: .*too few to take singletons from the margin") as caught:
        found = pippin.compare(probs, labels, ["ip/ms"], 0.2, splits=30)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    found.conditional()
    with pytest.warns(UserWarning, match="In one split: Too few calibration examples per class to cluster") as caught:
        pippin.compare(probs, labels, ["ip per cluster"], 0.2, splits=1)
    assert caught[0].filename == __file__


CALLS = {
    "calibrate": lambda p, y: pippin.calibrate(p[:5], y[:5], "ip"),
    "at": lambda p, y: pippin.calibrate(p, y, "ip", 0.2).at(0.001),
    "class": lambda p, y: pippin.calibrate(p, y, "ip", per="class"),
    "cluster": lambda p, y: pippin.calibrate(p, y, "ip", per="cluster", seed=0),
    "group": lambda p, y: pippin.calibrate(p, y, "ip", groups=np.arange(60) % 50),
    "cells at": lambda p, y: pippin.calibrate(p, y, "ip", 0.3, groups=np.arange(60) % 2).at(0.01),
    "cross": lambda p, y: pippin.calibrate(p[:5], y[:5], "ip", folds=[0, 0, 1, 1, 1]),
    "none": lambda p, y: pippin.calibrate(p[:5], y[:5], "ip/ms(variant=none)", 0.1),
    "sum": lambda p, y: pippin.calibrate(p[:15], y[:15], "ip/ms(variant=sum)", 0.1),
    "recalibrated": lambda p, y: pippin.calibrate(p, y, "ip/ms", 0.1, seed=0),
    "compare": lambda p, y: pippin.compare(p, y, ["ip per class"], splits=2),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_warning_points_at_the_callers_line(case):
    probs, labels = few_rows()
    with pytest.warns(UserWarning, match=r"[Tt]oo few|infinite|fewer") as caught:
        CALLS[case](probs, labels)
    assert {one.filename for one in caught} == {__file__}


def test_a_threshold_of_one_without_randomization():
    """APS without randomization warns of a threshold of 1, with which all classes of probability 0 are in every set."""
    probs = np.array([[0.7, 0.3, 0.0], [0.6, 0.4, 0.0], [1.0, 0.0, 0.0]] * 20)
    labels = np.tile([0, 1, 0], 20)
    message = r"The threshold of aps\(randomized=False\) is 1, the score of classes of probability 0 without"
    with pytest.warns(UserWarning, match=message):
        predictor = pippin.calibrate(probs, labels, "aps(randomized=False)")
    assert predictor.predict([[1.0, 0.0, 0.0]]).labels() == [[0, 1, 2]]
    with pytest.warns(UserWarning, match=message):
        pippin.calibrate(probs, labels, "aps(randomized=False)", 0.7).at(0.1)
    randomized = pippin.calibrate(probs, labels, "aps", seed=0)
    assert randomized.predict(np.repeat([[1.0, 0.0, 0.0]], 50, axis=0), seed=0).sizes.max() == 1


def test_a_warning_of_a_thread_points_to_the_caller():
    """Rows that are checked in threads are reported once, at the line of the call."""
    probs = np.tile(made_rows("spread", 500, 6, 0).round(2), (400, 1))
    with pytest.warns(UserWarning, match="rounded decimals allow") as caught:
        pippin.calibrate(probs, np.zeros(len(probs), int), "ip")
    assert [warning.filename for warning in caught] == [__file__]
