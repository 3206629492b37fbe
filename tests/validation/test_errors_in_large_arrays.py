"""Errors name the invalid row of a large array, for all engines and memory layouts."""

import subprocess
import sys

import numpy as np
import pytest

import pippin

LARGE = (100_000, 20)  # compiled, and eight blocks
DEEP = 70_001
DAMAGE = {
    "NaN": ({3: np.nan}, r"has nan in column 3, expected probabilities"),
    "inf": ({0: np.inf}, r"has inf in column 0, expected probabilities"),
    "-inf": ({19: -np.inf}, r"has -inf in column 19, expected probabilities"),
    "negative, sum 1": ({0: 1.5, 1: -0.5}, r"has -0.5 in column 1, expected no negative"),
    "sum too large": ({0: 0.75, 1: 0.25, 2: 0.0625}, r"sums to 1.0625, expected 1 within 0.001"),
    "sum just outside": ({0: 0.5, 1: 0.5011}, r"sums to 1.0011, expected 1"),
    "logits": ({0: 8.0, 1: -2.0}, r"sums to 6, expected 1: these look like logits: pass from_logits=True"),
    "percentages": ({0: 60.0, 1: 40.0}, r"sums to 100, expected 1: these look like percentages"),
}
SMALL = pippin.calibrate(np.full((20, 20), 0.05), range(20))
USES = {
    "calibrate": lambda probs: pippin.calibrate(probs, np.zeros(len(probs), int)),
    "calibrate socop": lambda probs: pippin.calibrate(probs, np.zeros(len(probs), int), "socop"),
    "predict": lambda probs: SMALL.predict(probs),
    "score": lambda probs: pippin.scores.score(probs, None, "ip"),
}


def damaged(changes, *rows, dtype=np.float32, order="C"):
    probs = np.full(LARGE, 0.05, dtype, order)
    for row in rows:
        probs[row] = 0
        for column, value in changes.items():
            probs[row, column] = value
    return probs


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(("changes", "words"), DAMAGE.values(), ids=DAMAGE)
def test_an_invalid_row_in_a_large_array_is_named(changes, words, use):
    """The error has the row number in the whole array, and the text of a small one."""
    with pytest.raises(ValueError, match=f"^Row {DEEP} {words}"):
        use(damaged(changes, DEEP))


@pytest.mark.parametrize("options", [{"dtype": np.float64}, {"order": "F"}, {"dtype": np.float16}], ids=str)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_an_invalid_row_is_named_in_other_memory_layouts(use, options):
    """Memory layout and data type do not change the row number."""
    with pytest.raises(ValueError, match=f"^Row {DEEP} has nan in column 3"):
        use(damaged({3: np.nan}, DEEP, **options))


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("first", [0, 13_106, 13_107, 40_000])
def test_the_first_of_several_invalid_rows_is_named(first, use):
    """Although blocks run in several threads, the first invalid row is named."""
    probs = damaged({3: np.nan}, first + 1, DEEP, 99_999)
    probs[first, 0] += 1
    for _ in range(3):
        with pytest.raises(ValueError, match=f"^Row {first} sums to 2"):
            use(probs)


def test_invalid_logits_in_a_large_array_are_named():
    """The softmax names the first invalid row."""
    logits = np.zeros(LARGE, np.float32)
    logits[[99_000, DEEP], 5] = np.nan
    with pytest.raises(ValueError, match=f"^Row {DEEP} has a largest logit of nan"):
        pippin.calibrate(logits, np.zeros(len(logits), int), from_logits=True)


def test_invalid_labels_in_a_large_array_are_named():
    """Labels are indices or names."""
    probs = np.full(LARGE, 0.05, np.float32)
    labels = np.zeros(LARGE[0], int)
    labels[[99_000, DEEP]] = 20
    with pytest.raises(ValueError, match=f"^Row {DEEP} has the label 20, expected 0 to 19"):
        pippin.calibrate(probs, labels)
    names = [f"c{k}" for k in range(20)]
    with pytest.raises(ValueError, match=f"^Row {DEEP} has the label 'c20', which is not one of the 20 classes"):
        pippin.calibrate(probs, [f"c{k}" for k in labels], classes=names)


UNCOMPILED = """
import sys
import numpy as np
import pippin

for use in (
    lambda probs: pippin.calibrate(probs, np.zeros(len(probs), int)),
    lambda probs: pippin.scores.score(probs, None, "ip"),
    lambda probs: pippin.calibrate(np.full((20, 10), 0.1), [0] * 20).predict(probs),
):
    probs = np.full((30_000, 10), 0.1)
    probs[29_000, 3] = np.nan
    probs[27_001, 0] = 1
    try:
        use(probs)
    except ValueError as error:
        print(error)
print("pippin._engine.numba_engine.engine" in sys.modules)
"""


def test_the_numpy_engine_names_the_same_row():
    """A new process uses NumPy in several blocks and names the first invalid row."""
    done = subprocess.run([sys.executable, "-c", UNCOMPILED], capture_output=True, text=True, check=True)
    *errors, compiled = done.stdout.splitlines()
    assert compiled == "False"
    assert len(errors) == 3
    assert {error[:27] for error in errors} == {"Row 27001 sums to 1.9, expe"}
