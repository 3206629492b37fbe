"""Warnings about rows that the classifier was probably trained on, and about columns or labels in another order."""

import re
import warnings

import numpy as np
import polars
import pytest

import pippin

EXAMPLE = pippin.load_example()
PROBS, LABELS, CLASSES = EXAMPLE.probs, EXAMPLE.labels, EXAMPLE.classes
UTILITY = pippin.decisions.Utility(np.eye(12), actions=[f"pick {k}" for k in range(12)])
PREDICTOR = pippin.calibrate(PROBS[:2000], LABELS[:2000], "aps", seed=0)  # its calibration rows are not noticed


def distributed(probs, labels):
    """Calibrate in five parts."""
    calibration = pippin.distributed.Calibration("ip", 0.1, classes=range(probs.shape[1]))
    cuts = np.array_split(np.arange(len(labels)), 5)
    calibration.merge([calibration.part(probs[cut], labels[cut], first=int(cut[0])) for cut in cuts])


def scanned(probs, labels, tmp_path):
    """Calibrate on a table."""
    columns = {str(k): probs[:, k] for k in range(probs.shape[1])}
    polars.DataFrame({**columns, "label": labels}).write_parquet(tmp_path / "rows.parquet")
    pippin.calibrate(pippin.scan(tmp_path / "rows.parquet"))


CALLS = {
    "calibrate": lambda p, y: pippin.calibrate(p, y, "ip"),
    "calibrate per group": lambda p, y: pippin.calibrate(p, y, "ip", groups=np.arange(len(y)) % 3),
    "calibrate with folds": lambda p, y: pippin.calibrate(p, y, "ip", folds=np.arange(len(y)) % 5),
    "calibrate logits": lambda p, y: pippin.calibrate(np.log(p + 1e-9), y, "ip", from_logits=True),
    "compare": lambda p, y: pippin.compare(p, y, "ip", splits=2),
    "tune": lambda p, y: pippin.tune(p, y, "ip", splits=2),
    "evaluate": lambda p, y: pippin.evaluate(PREDICTOR, y, probs=p),
    "decisions": lambda p, y: pippin.decisions.calibrate(p, y, UTILITY),
    "compare decisions": lambda p, y: pippin.decisions.compare(p, y, UTILITY, "ip", splits=2),
    "control risk": lambda p, y: pippin.decisions.control_risk(p, y, 1.0, 0.3),
    "distributed": distributed,
}
SAME_ORDER = np.arange(12)
TEXT_ORDER = np.array([0, 1, 10, 11, *range(2, 10)])  # the columns "0" to "11" in the order of text
BELOW = LABELS < 11
MISTAKES = {
    "training rows": (PROBS, PROBS.argmax(axis=1), r"All [\d,]+ .*rows.* are classified correctly, although their "),
    "reversed columns": (PROBS[:, ::-1], LABELS, "order, such as column .* for label .*: put the columns in the order"),
    "columns sorted as text": (PROBS[:, TEXT_ORDER], LABELS, "but would be in about [78].*% if the columns were in an"),
    "labels from 1": (PROBS[BELOW], LABELS[BELOW] + 1, "if every label is lowered by one: labels are probably counted"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("probs", "labels", "words"), MISTAKES.values(), ids=MISTAKES)
def test_each_function_warns_once_of_a_mistake(probs, labels, words, call):
    """Each function warns once, with the line of the caller."""
    with pytest.warns(UserWarning, match=words) as caught:
        call(probs, labels)
    assert [one.filename for one in caught] == [__file__]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_plausible_rows_cause_no_warning(call):
    """Rows of the example, and rows of a classifier that is no better than chance, cause no warning."""
    call(PROBS, LABELS)
    call(PROBS, np.random.default_rng(0).permutation(LABELS))


def test_scanned_tables_are_checked(tmp_path):
    scanned(PROBS, LABELS, tmp_path)
    for probs, labels, words in MISTAKES.values():
        with pytest.warns(UserWarning, match=words):
            scanned(probs, labels, tmp_path)


def never_right(n=2000, n_classes=10):
    """Return certain rows of a random wrong class."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, n_classes, n)
    return np.eye(n_classes)[(labels + rng.integers(1, n_classes, n)) % n_classes], labels


TRAINED = (
    "if the classifier was trained on these rows, no guarantee or metric from them holds for new rows. Use rows that "
    "it was not trained on."
)
TEXTS = {
    "training rows": (
        PROBS,
        PROBS.argmax(axis=1),
        f"All 4,986 rows are classified correctly, although their probabilities predict 525 errors: {TRAINED}",
    ),
    "training rows, a sample": (
        np.repeat(PROBS, 8, axis=0),
        np.repeat(PROBS.argmax(axis=1), 8),
        "All 13,296 examined rows (of 39,888) are classified correctly, although their probabilities predict 1,402 "
        f"errors: {TRAINED}",
    ),
    "another order": (
        PROBS[:, ::-1],
        LABELS,
        "The most probable class is the true one in only 1.87% of 4,986 rows, but would be in about 80% if the columns "
        "were in another order, such as column 'scentless_mayweed' for label 'common_chickweed': put the columns in "
        "the order of the labels.",
    ),
    "labels from 1": (
        PROBS[BELOW],
        LABELS[BELOW] + 1,
        "The most probable class is the true one in only 1.6% of 4,570 rows, but in 78.5% if every label is lowered by "
        "one: labels are probably counted from 1. Count them from 0, or check the order of the class names.",
    ),
    "below chance": (
        *never_right(),
        "The most probable class is the true one in only 0% of 2,000 rows, less often than by chance (10%): check that "
        "the columns are in the order of the labels, and that labels are counted from 0.",
    ),
}


@pytest.mark.parametrize(("probs", "labels", "text"), TEXTS.values(), ids=TEXTS)
def test_the_text_names_counts_and_classes(probs, labels, text):
    """The warning states the number of rows, the errors predicted by the probabilities, and two classes."""
    classes = CLASSES if probs.shape[1] == 12 else None
    with pytest.warns(UserWarning, match=f"^{re.escape(text)}$"):
        pippin.calibrate(probs, labels, "ip", classes=classes)


def drawn(rng, probs):
    """Draw labels from probabilities."""
    return (rng.random(len(probs))[:, None] >= probs.cumsum(axis=1)[:, :-1]).sum(axis=1)


def softmax(logits):
    """Return rows of probabilities."""
    logits = np.exp(logits - logits.max(axis=1, keepdims=True))
    return logits / logits.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 10, 100])
@pytest.mark.parametrize("n", [50, 300, 2000])
def test_honest_calibrations_cause_no_warning(n, n_classes):
    """Honest probabilities of any accuracy cause no warning, also if they are overconfident or smoothed."""
    rng = np.random.default_rng([n, n_classes])
    for spread in np.geomspace(0.1, 300, 30 if n < 1000 else 6):
        logits = rng.normal(0, spread, (n, n_classes))
        probs = softmax(logits)
        labels = drawn(rng, probs)
        for reported in (probs, softmax(2 * logits), 0.9 * probs + 0.1 / n_classes):
            pippin.calibrate(reported, labels, "ip")
        pippin.calibrate(probs, rng.permutation(labels), "ip")


def test_dependent_rows_are_not_training_rows():
    """Windows of twenty photographs can all be right by chance, and cause no warning if photographs are units."""
    rng = np.random.default_rng(0)
    photos, probability = np.repeat(np.arange(20), 50), rng.uniform(0.6, 1, 1000)
    probs = np.column_stack([probability, 1 - probability])
    pippin.calibrate(probs, np.zeros(1000, int), "ip", units=photos)
    with pytest.warns(UserWarning, match=r"All 1,000 rows are classified correctly"):
        pippin.calibrate(probs, np.zeros(1000, int), "ip")


def test_nearly_all_of_many_rows():
    """With certain probabilities, which predict no errors, the warning needs many rows without an error."""
    labels = np.arange(15_000) % 3
    probs = np.eye(3)[labels]
    pippin.calibrate(probs[:6900], labels[:6900], "ip")
    with pytest.warns(UserWarning, match=r"All 15,000 rows are classified correctly: if the classifier was trained on"):
        pippin.calibrate(probs, labels, "ip")
    wrong = np.where(np.arange(15_000) == 7, (labels + 1) % 3, labels)
    with pytest.warns(UserWarning, match=r"All but 1 of 15,000 rows are classified correctly: if"):
        pippin.calibrate(probs, wrong, "ip")


def test_few_classes_predicted_are_no_other_order():
    """A classifier that predicts only a few of the classes does not cause a warning of another column order."""
    rng = np.random.default_rng(0)
    labels = rng.choice(4, 2000, p=[0.1, 0.7, 0.1, 0.1])
    pippin.calibrate(np.tile([0.1, 0.7, 0.1, 0.1], (2000, 1)), labels, "ip")
    labels = rng.integers(0, 100, 2000)
    probs = np.full((2000, 100), 0.005)
    probs[np.arange(2000), labels // 20 * 20] = 0.505
    pippin.calibrate(probs, labels, "ip")


def test_empty_sets_of_training_rows_have_possible_advice():
    """The advice on empty sets is never alpha=0, nor an alpha with an infinite threshold."""
    best = PROBS.argmax(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predictor = pippin.calibrate(PROBS, best, "ip", 0.3)
        found = pippin.evaluate(predictor, best, probs=PROBS)
    assert found.on_empty.endswith(
        "are empty: use other rows if it was trained on these, otherwise use sets that are never empty."
    )
    few = pippin.calibrate(PROBS[:100], LABELS[:100], "ip", 0.3)
    nearly = np.where(np.arange(len(best)) % 500 == 0, LABELS, best)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pippin.evaluate(few, nearly, probs=PROBS)
    assert found.on_empty.endswith("of the sets are empty: use sets that are never empty.")
