"""Fuzzing of predictor files: each damaged file loads as a usable predictor, or raises a one-sentence InputError.

`python tests/support/file_fuzzing.py 1000000` makes a million files in memory from a seed: with flipped bits and lost
bytes, or with changed values, types, keys and lengths and a matching checksum.
"""

import copy
import hashlib
import json
import random
import sys
import time
import warnings
from collections import Counter
from functools import cache

import numpy as np

import pippin
from pippin._conformal.serialization import parse

N, K = 24, 3
UTILITY = pippin.decisions.Utility([[1, -2, 0], [-1, 1, 0.5], [0.3, 0.3, 0.3]], actions=("spray", "leave", "ask"))
DEEP = {f"@{depth}": "[" * depth + "]" * depth for depth in (50, 300, 480, 900, 960, 990, 1000, 20_000)}
NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    0.5,
    -0.5,
    1.5,
    -0.0,
    5e-324,
    1e308,
    2**31,
    -(2**31),
    2**53,
    2**53 + 1,
    2**63,
    2**64,
    10**400,
]
WORDS = [
    "",
    "inf",
    "-inf",
    "nan",
    "pip",
    "aps",
    "linear",
    "class",
    "group",
    "rc3p",
    "sum",
    "weighted",
    "units",
    "cross",
]
ODD = [
    None,
    True,
    False,
    *NUMBERS,
    *WORDS,
    "a\nb",
    "\ud800",
    "é" * 50,
    [],
    {},
    [[]],
    [None],
    [1],
    ["inf"],
    {"a": 1},
    *DEEP,
]


@cache
def sound_files():
    """Return the content of a small valid file of each kind."""
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(K), N), rng.integers(0, K, N)
    farms = np.array(["east", "west"])[np.arange(N) % 2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {
            "marginal": pippin.calibrate(probs, labels, "repip", 0.3, classes=["crop", "soil", "weed"]),
            "unnamed": pippin.calibrate(probs, labels, "raps", 0.3, seed=0),
            "linear": pippin.calibrate(probs, labels + 7, pippin.scores.linear([1, 0.5, 0.25]), 0.3, classes=[7, 8, 9]),
            "class": pippin.calibrate(probs, labels, "pip", 0.3, per="class"),
            "group": pippin.calibrate(probs, labels, "ip", 0.3, groups=farms, unseen="marginal"),
            "class and group": pippin.calibrate(
                probs, labels, "saps", 0.3, seed=0, per="class and group", groups=farms
            ),
            "cluster": pippin.calibrate(probs, labels, "aps", 0.3, seed=0, per="cluster"),
            "rc3p": pippin.calibrate(probs, labels, "socop", 0.3, per="rc3p"),
            "combination": pippin.calibrate(probs, labels, "ip/ms(variant=sum)", 0.3),
            "weighted": pippin.calibrate(probs, labels, "margin", 0.3, weights=1 + probs[:, 0]),
            "units": pippin.calibrate(probs, labels, "pip", 0.3, units=np.arange(N) // 2),
            "cross": pippin.calibrate(probs, labels, "topk", 0.3, folds=np.arange(N) % 2),
            "decisions": pippin.decisions.calibrate(probs, labels, UTILITY, 0.3),
            "decisions per class": pippin.decisions.calibrate(probs, labels, UTILITY, 0.3, per="class"),
            "decisions for units": pippin.decisions.calibrate(probs, labels, UTILITY, 0.3, units=np.arange(N) // 2),
            "sharpened decisions": pippin.decisions.calibrate(probs, labels, UTILITY, 0.3, sharpen="split"),
            "risk": pippin.decisions.control_risk(probs, labels, [1.0, 0.5, 0.2], 0.3),
            "sharpened": pippin.calibrate(probs, labels, "ip", 0.3, sharpen="split"),
            "sharpened cross": pippin.calibrate(probs, labels, "pip", 0.3, sharpen="cross"),
            "sharpened mixture": pippin.calibrate(probs, labels, "ip", 0.3, sharpen="mixture"),
        }
    contents = {kind: predictor.content() for kind, predictor in made.items()}
    bare = {f"{kind} bare": made[kind].content(scores=False) for kind in ("marginal", "unnamed", "class", "rc3p")}
    return contents | bare


def file_of(content, **changes):
    """Return the bytes of a file with a valid checksum, written from the format description alone."""
    content = _spelled(content)
    text = _nested(json.dumps(content, sort_keys=True, separators=(",", ":")))
    head = {"format": "pippin predictor", "version": 2 if "kind" in content else 1}
    whole = {**head, "sha256": hashlib.sha256(text.encode()).hexdigest(), "predictor": content}
    return _nested(json.dumps({**whole, **changes})).encode()


def damaged(content, rng):
    """Return the bytes of the damaged file, and the kind of damage."""
    way = rng.choice(["bits", "bytes", "head", "value", "value", "value", "values", "key", "length", "scores"])
    if way in ("bits", "bytes"):
        return _broken(bytearray(file_of(content)), way, rng), way
    if way == "head":
        return file_of(
            content, **{rng.choice(["format", "version", "sha256", "predictor", "more"]): rng.choice(ODD)}
        ), way
    changed = copy.deepcopy(content)
    for _ in range(rng.randint(2, 4) if way == "values" else 1):
        _change(changed, way, rng)
    return file_of(changed), way


def judge(text):
    """Load a file; return "used" or "refused", or raise any other error."""
    try:
        predictor = parse(text, "predictor.json")
    except pippin.InputError as error:
        sentence = str(error)
        assert sentence.startswith("predictor.json"), sentence
        assert sentence.endswith("."), sentence
        assert "\n" not in sentence, sentence
        return "refused"
    use(predictor)
    return "used"


def use(predictor):
    """Predict the sets of two rows, and describe the predictor."""
    assert predictor.describe()
    assert repr(predictor)
    assert 0 <= predictor.guarantee <= 1  # 1 − 5e-324 is 1
    n_classes = len(predictor.classes)
    rows = np.full((2, min(n_classes, 64)), 1 / min(n_classes, 64))
    if n_classes > 64:
        return
    rows[1] = 0
    rows[1, 0] = 1
    given = {"seed": 0} if "seed" in predictor.takes else {}
    if "groups" in predictor.takes:
        given["groups"] = [predictor.groups[0]] * 2
    if "weights" in predictor.takes:
        given["weights"] = [1.0, 1.0]
    rows_of_models = [rows] * len(predictor.content()["fold_scores"]) if "folds" in predictor.takes else rows
    sets = predictor.predict(rows_of_models, **given)
    assert len(sets) == 2
    assert all(0 <= k < n_classes for k in sets.members.tolist())


def search(n, seed=0):
    """Load n damaged files; return counts of used and refused files, and one failure of each kind."""
    rng, files, found, failures = random.Random(seed), list(sound_files().items()), Counter(), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(n):
            kind, content = rng.choice(files)
            text, way = damaged(content, rng)
            try:
                found[judge(text)] += 1
            except Exception as error:  # any error other than InputError is a failure
                failures.setdefault((type(error).__name__, str(error)[:60]), (kind, way, text[-1500:], repr(error)))
                found["failed"] += 1
    return found, failures


def _nested(text):
    """Replace marks by deeply nested lists, deeper than Python would write them."""
    if "@" in text:
        for mark, lists in DEEP.items():
            text = text.replace(f'"{mark}"', lists)
    return text


def _spelled(value):
    """Encode infinity as in a file."""
    if isinstance(value, dict):
        return {key: _spelled(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_spelled(part) for part in value]
    return {float("inf"): "inf", -float("inf"): "-inf"}.get(value, value) if isinstance(value, float) else value


def _broken(text, way, rng):
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(text))
        if way == "bits":
            text[place] ^= 1 << rng.randrange(8)
        elif rng.random() < 0.5:
            del text[place : place + rng.randint(1, 40)]
        else:
            text[place:place] = text[place : place + rng.randint(1, 40)]
        if not text:
            break
    return bytes(text)


def _change(content, way, rng):
    """Change one random node of the tree."""
    holder = content
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.25:
            break
        holder = inner
    if way == "key" and isinstance(holder, dict):
        other = rng.choice([*map(str, ODD[:8]), *WORDS, *content, "a\nb", "\ud800"])
        holder[other] = holder.pop(key) if rng.random() < 0.5 else inner
    elif way == "length" and isinstance(holder, list):
        holder[key : key + 1] = [] if rng.random() < 0.5 else [inner, inner]
    elif way == "scores" and isinstance(inner, float):
        holder[key] = float(np.nextafter(inner, rng.choice([-9, 9])))
    else:
        other = rng.choice(list(content.values()))
        holder[key] = copy.deepcopy(rng.choice([rng.choice(ODD), other, _near(inner, rng)]))


def _near(value, rng):
    """Return a similar value: another type, sign or length."""
    near = [[value], str(value), None]
    if isinstance(value, int | float) and abs(value) < 2**60:
        near += [value + 1, -value, float(value), int(value), value * 1e300]
    if isinstance(value, list):
        near += [value[::-1], value * 2, value[1:], dict(enumerate(value))]
    return rng.choice(near)


if __name__ == "__main__":
    count, started = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, time.monotonic()
    counted, wrong = search(count, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"{count:,} damaged files: {dict(counted)}, in {time.monotonic() - started:.0f} s")
    for sort, example in wrong.items():
        print(*sort, *example, sep="\n    ")
    sys.exit(bool(wrong))
