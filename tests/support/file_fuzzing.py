"""Fuzzing of saved files: each damaged file loads as a usable object with its content, or raises an InputError.

`python tests/support/file_fuzzing.py 1000000` makes a million files in memory from a seed: with flipped bits and lost
bytes, or with changed values, types, keys and lengths and a matching checksum. It prints the counts for each kind of
saved object. Further arguments are the seed, a part of the names of the kinds to damage, and the number of processes:
`python tests/support/file_fuzzing.py 10000 0 stream 16`. Without numba there are no
streams and monitors, which need it.
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
from importlib.util import find_spec
from itertools import repeat
from multiprocessing import Pool

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
    data, features = (probs, labels), rng.normal(size=(N, 2))
    farms = np.array(["east", "west"])[np.arange(N) % 2]
    kinds = {0: "crop", 1: "weed", 2: "weed"}
    calibrate, decisions = pippin.calibrate, pippin.decisions
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        utility = decisions.Utility(
            [[1, -2], [-1, 1]], actions=("spray", "leave"), classes=("crop", "weed"), kinds=kinds
        )
        made = {
            "marginal": calibrate(*data, "repip", 0.3, classes=["crop", "soil", "weed"]),
            "unnamed": calibrate(*data, "raps", 0.3, seed=0),
            "linear": calibrate(probs, labels + 7, pippin.scores.linear([1, 0.5, 0.25]), 0.3, classes=[7, 8, 9]),
            "confidence": calibrate(*data, "ip", 0.3, confidence=0.8),
            "class": calibrate(*data, "pip", 0.3, per="class"),
            "class confidence": calibrate(*data, "pip", 0.3, per="class", confidence=0.8),
            "kind": calibrate(*data, "pip", 0.3, per=kinds),
            "kind levels": calibrate(*data, "pip", {"crop": 0.2, "weed": 0.3}, per=kinds),
            "group": calibrate(*data, "ip", 0.3, groups=farms, unseen="marginal"),
            "class and group": calibrate(*data, "saps", 0.3, seed=0, per="class and group", groups=farms),
            "cluster": calibrate(*data, "aps", 0.3, seed=0, per="cluster"),
            "rc3p": calibrate(*data, "socop", 0.3, per="rc3p"),
            "interpolated": calibrate(*data, "pip", 0.3, seed=0, per="interpolated", confidence=0.6),
            "combination": calibrate(*data, "ip/ms(variant=sum)", 0.3),
            "combination recalibrated": calibrate(*data, "ip/ms(variant=recalibrated)", 0.3),
            "weighted": calibrate(*data, "margin", 0.3, weights=1 + probs[:, 0]),
            "units": calibrate(*data, "pip", 0.3, units=np.arange(N) // 2),
            "cross": calibrate(*data, "topk", 0.3, folds=np.arange(N) % 2),
            "decisions": decisions.calibrate(*data, UTILITY, 0.3),
            "decisions per class": decisions.calibrate(*data, UTILITY, 0.3, per="class"),
            "decisions for units": decisions.calibrate(*data, UTILITY, 0.3, units=np.arange(N) // 2),
            "sharpened decisions": decisions.calibrate(*data, UTILITY, 0.3, sharpen="split"),
            "sharpened cross decisions": decisions.calibrate(*data, UTILITY, 0.3, sharpen="cross(folds=2)"),
            "decisions per kind": decisions.calibrate(*data, utility, {"crop": 0.2, "weed": 0.3}, per=kinds),
            "decisions per group": decisions.calibrate(*data, UTILITY, 0.3, groups=farms, per="group"),
            "decisions per action": decisions.calibrate(*data, UTILITY, 0.3, per="action"),
            "bounded cost": decisions.bound_cost(*data, UTILITY, bound=5.0),
            "risk": decisions.control_risk(*data, [1.0, 0.5, 0.2], 0.3),
            "risk function": decisions.control_risk(*data, lambda members, label: float(label not in members), 0.3),
            "selective": decisions.select(*data, error=0.6, confidence=0.6),
            "selective singletons": decisions.select(
                *data, error=0.7, confidence=0.5, predictor=calibrate(*data, "ip", 0.3)
            ),
            "selective per class": decisions.select(*data, error=0.6, confidence=0.6, per="class"),
            "sharpener": pippin.sharpen(*data),
            "sharpener features": pippin.sharpen(*data, features=features),
            "sharpened": calibrate(*data, "ip", 0.3, sharpen="split"),
            "sharpened cross": calibrate(*data, "pip", 0.3, sharpen="cross"),
            "stack": pippin.models.stack([probs, probs[:, ::-1]], labels),
            "stacked": calibrate([probs, probs[:, ::-1]], labels, "ip", 0.3, sharpen="split"),
            "sharpened mixture": calibrate(*data, "ip", 0.3, sharpen="mixture"),
        }
        several, pairs = [made["class"], made["sharpened"]], [(probs, 1.0), (probs, 9.0)]
        made |= {
            "combined": pippin.models.combine(several, method="harmonic"),
            "combined recalibrated": pippin.models.combine(several, [probs, probs], labels),
            "cascade": pippin.models.cascade(pairs, labels, "pip", 0.3, exits=0.5),
            "cascade per stage": pippin.models.cascade(pairs, labels, "aps", 0.3, exits=0.5, per="stage", seed=0),
        }
        made["label ratios"] = calibrate(*data, "ip", 0.3, weights=pippin.shift.label_ratios(*data, probs[::-1]))
        if find_spec("numba"):
            made |= _watching(made, probs, labels, farms)
    contents = {kind: saved.content() for kind, saved in made.items()}
    record = made["class"].with_provenance({"a.csv": "0" * 64}, date="2025-11-18", by="Ada").provenance.content()
    contents["provenance"] = contents["class"] | {"provenance": record}
    with_scores = ("marginal", "unnamed", "class", "rc3p", "kind levels", "decisions", "decisions per action")
    return contents | {f"{kind} bare": made[kind].content(scores=False) for kind in with_scores}


def _watching(predictors, probs, labels, farms):
    """Return streams and monitors of all options after some rows; of three tickets one was never used."""
    online, made = pippin.online, {}
    for update in ("none", "grow", "window", "track", "aci", "dtaci"):
        for kind in ("unnamed",) if update in ("none", "window") else ("unnamed", "class", "group"):
            made[f"stream {update} {kind}"] = stream = online.Stream(predictors[kind], update, seed=1)
            rows = list(zip(probs, labels, farms, strict=True))
            for row, label, farm in rows * (10 if update == "aci" else 1):
                tickets = [stream.predict_one(row, group=farm if kind == "group" else None) for _ in range(3)]
                stream.learn(tickets[0], label)
                stream.learn(tickets[2], label)
    options = {"": {}, " shiryaev-roberts": {"mean_time": 20}, " cusum": {"mean_time": 20, "detector": "cusum"}}
    for name, option in options.items():
        for kind in ("unnamed", "group", None):
            monitor = online.Monitor(predictors[kind or "marginal"], **option, seed=1)
            made[f"monitor{name} {kind or 'without labels'}"] = monitor
            for row, label, farm in zip(probs[::-1], labels, farms, strict=True):
                monitor.update(row, label if kind else None, group=farm if kind == "group" else None)
    made["monitor new"] = online.Monitor(predictors["class"])
    made["monitor scores"] = online.Monitor(predictors["marginal"], reference=probs[:, 0], seed=1)
    for score in probs[:, 1]:
        made["monitor scores"].update(score)
    made["risk monitor"] = online.RiskMonitor(0.1, delta=0.05)
    for i in range(30):
        made["risk monitor"].update(i % 2 == 0)
    return made


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
        change(changed, way, rng)
    return file_of(changed), way


def judge(text, rounds=2):
    """Load a file; return "used" or "refused", or raise any other error.

    An object that loads must have the content of its file, and must work.
    """
    try:
        saved = parse(text, "saved.json")
    except pippin.InputError as error:
        sentence = str(error)
        assert sentence.startswith("saved.json"), sentence
        assert sentence.endswith("."), sentence
        assert "\n" not in sentence, sentence
        return "refused"
    written = json.loads(text)["predictor"]
    assert (found := _difference(_spelled(_content(saved, written)), written)) is None, found
    assert repr(saved)
    if not isinstance(saved, pippin.Sharpener):
        assert saved.describe()
    if isinstance(saved, pippin.online.Stream | pippin.online.Monitor | pippin.online.RiskMonitor):
        watch(saved, rounds)
    else:
        use(saved)
    return "used"


def use(saved):
    """Apply a predictor, decider, selective classifier, risk controller or sharpener to two rows."""
    rows, n_classes = _rows(saved.classes)
    if max(n_classes, getattr(saved, "n_features", 0)) > 64:
        return
    sharpeners = (saved,) if isinstance(saved, pippin.Sharpener) else getattr(saved, "sharpeners", ())
    if sharpeners and sharpeners[0].pool is not None:
        rows = [rows] * sharpeners[0].n_models
    if isinstance(saved, pippin.Sharpener):
        features = np.zeros((2, saved.n_features)) if saved.n_features else None
        assert np.allclose(saved(rows, features=features).sum(axis=1), 1)
        return
    if isinstance(saved, pippin.decisions.CostPolicy):
        assert set(saved.decide(rows).actions.tolist()) <= set(saved.utility.actions)
        return
    if isinstance(saved, pippin.decisions.SelectiveClassifier):
        assert len(saved.predict(rows)) == 2
        return
    given = {}
    if getattr(saved, "sharpeners", ()) and "features" in saved.takes:
        given["features"] = np.zeros((2, saved.sharpeners[0].n_features))
    if isinstance(saved, pippin.ConformalPredictor | pippin.decisions.Decider):
        assert 0 <= saved.guarantee <= 1  # 1 − 5e-324 is 1
        given |= {name: value for name, value in (("seed", 0), ("weights", [1.0, 1.0])) if name in saved.takes}
        if "groups" in saved.takes:
            given["groups"] = [saved.groups[0]] * 2
    if isinstance(saved, pippin.decisions.Decider):
        assert set(saved.decide(rows, **given).actions.tolist()) <= set(saved.utility.actions)
    content = saved.content()
    models = {"cross": "fold_scores", "combined": "predictors", "cascade": "costs"}.get(content.get("kind"))
    sets = saved.predict(rows if models is None else [rows] * len(content[models]), **given)
    assert len(sets) == 2
    assert all(0 <= k < n_classes for k in sets.members.tolist())


def watch(saved, rounds):
    """Continue a stream or monitor for some rows; save and load it, and compare the states."""
    for i in range(rounds):
        if isinstance(saved, pippin.online.RiskMonitor):
            saved.update(i % 2 == 0)
            continue
        rows, n_classes = _rows(saved.predictor.classes)
        groups = getattr(saved.predictor, "groups", None)
        if n_classes > 64:
            return
        group = None if groups is None else groups[0]
        if isinstance(saved, pippin.online.Stream):
            saved.learn(saved.predict_one(rows[i % 2], group=group), i % n_classes)
            assert saved.bound is None or saved.bound >= 0
        elif saved.content()["labelled"] is True:
            assert saved.update(rows[i % 2], i % n_classes, group=group).evidence >= 0
        else:
            assert saved.update(0.5 if saved.takes_scores else rows[i % 2]).evidence >= 0
    content = _spelled(saved.content())
    assert (found := _difference(_spelled(parse(file_of(content), "again").content()), content)) is None, found


def _rows(classes):
    """Return a uniform and a one-hot row of probabilities, of at most 64 classes, and the number of all classes."""
    n_classes = min(len(classes), 64)
    rows = np.full((2, n_classes), 1 / n_classes)
    rows[1] = 0
    rows[1, 0] = 1
    return rows, len(classes)


def _content(saved, written):
    """Return the content of a loaded object, without the entries that files of version 0.1 lack."""
    content = saved.content() | (
        {"provenance": saved.provenance and saved.provenance.content()} if "provenance" in written else {}
    )
    later = {"trail", "id", "confidence"}
    return {key: value for key, value in content.items() if key in written or key not in later}


def _difference(value, written, place="content"):
    """Return the first difference of two JSON values with its place, or None; 1 and 1.0 are equal."""
    if place.endswith(".parameters") and isinstance(written, dict):  # those that a file lacks have their defaults
        value = {key: value[key] for key in written}
    if isinstance(value, dict) and isinstance(written, dict) and value.keys() == written.keys():
        pairs = [(value[key], written[key], f"{place}.{key}") for key in value]
    elif isinstance(value, list | tuple) and isinstance(written, list) and len(value) == len(written):
        pairs = [(*pair, f"{place}[]") for pair in zip(value, written, strict=True)]
    else:
        numbers = (int, float, bool) if place.endswith(("trail[]", "misses[]")) else (int, float)
        alike = type(value) is type(written) or {type(value), type(written)} <= set(numbers)
        return None if alike and value == written else f"{place}: {str(value)[:80]} and {str(written)[:80]} in the file"
    return next((found for pair in pairs if (found := _difference(*pair))), None)


def search(n, seed=0, part=""):
    """Load n damaged files of all kinds whose name contains `part`.

    Return the counts of used and refused files by kind, and one failure of each sort.
    """
    rng, found, failures = random.Random(seed), Counter(), {}
    files = [(kind, content) for kind, content in sound_files().items() if part in kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(n):
            kind, content = rng.choice(files)
            text, way = damaged(content, rng)
            try:
                found[kind, judge(text)] += 1
            except Exception as error:  # any error other than InputError is a failure
                failures.setdefault((type(error).__name__, str(error)[:60]), (kind, way, text[-1500:], repr(error)))
                found[kind, "failed"] += 1
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


def change(content, way, rng):
    """Change one random node of a tree of JSON values."""
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


def main(count=100_000, seed=0, part="", processes=1):
    """Damage files in several processes, each with its own seed; print the counts and one failure of each sort."""
    started, found, failures = time.monotonic(), Counter(), {}
    counts = [count // processes + (number < count % processes) for number in range(processes)]
    with Pool(processes) as pool:
        for counted, wrong in pool.starmap(
            search, zip(counts, range(seed, seed + processes), repeat(part), strict=False)
        ):
            found += counted
            failures |= wrong
    for name in sound_files():
        print(f"{name:30}", *(f"{found[name, end]:>9,} {end}" for end in ("used", "refused", "failed")))
    total = sum(found.values())
    print(f"{total:,} damaged files, {len(failures)} sorts of failures, in {time.monotonic() - started:.0f} s")
    for sort, example in failures.items():
        print(*sort, *example, sep="\n    ")
    return bool(failures)


if __name__ == "__main__":
    first, words = [int(word) for word in sys.argv[1:3]], sys.argv[3:4]
    sys.exit(main(*first, *words, *map(int, sys.argv[4:5])))
