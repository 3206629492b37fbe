"""Repeated splits: fast counts equal a naive loop, and do not depend on threads, blocks or other scores."""

import math

import numpy as np
import pytest

import pippin
from pippin._compare import split_evaluation
from pippin._compare.split_evaluation import AT_ONCE, METRICS
from pippin._engine import dispatch
from pippin._validation.rows import as_rows
from support.engines import compiled, plain
from support.killed_processes import run_until
from support.rows import KINDS, made_rows
from support.scores import EVERY_SCORE, every_score


def naive(probs, labels, score, alpha, splits, fraction, seed):
    """Calibrate, predict and evaluate every split with the public functions."""
    n = len(labels)
    n_calibration = round(fraction * n)
    found = []
    for index in range(splits):
        generator = np.random.default_rng([seed, index])
        inner = np.sort(generator.choice(n, n_calibration, replace=False, shuffle=False))
        outer = np.setdiff1d(np.arange(n), inner)
        predictor = pippin.calibrate(probs[inner], labels[inner], score, alpha, seed=generator)
        result = pippin.evaluate(predictor.predict(probs[outer], seed=generator), labels[outer])
        rates = result.coverage, result.mean_size, result.singleton_rate, result.empty_rate
        found.append((predictor.threshold, *rates, result.size_coverage.get(1, math.nan)))
    return np.array(found)


@every_score
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:.*(too few|infinite score):UserWarning")
def test_splits_are_counted_exactly(score, kind):
    """The table of `compare` equals the naive loop's to the last bit: ties, zeros, tiny and infinite cases."""
    rng = np.random.default_rng(KINDS.index(kind))
    for n, n_classes, alpha, fraction in ((60, 5, 0.1, 0.45), (31, 2, 0.3, 0.6), (12, 30, 0.05, 0.5)):
        probs = made_rows(kind, n, n_classes, n)
        labels = np.where(rng.random(n) < 0.6, probs.argmax(axis=1), rng.integers(0, n_classes, n))
        made = pippin.compare(probs, labels, [score], alpha, splits=6, calibration_fraction=fraction, seed=3)
        assert np.array_equal(made.values[0], naive(probs, labels, score, alpha, 6, fraction, 3), equal_nan=True)


@every_score
def test_splits_of_the_example_are_counted_exactly(score):
    """On real rows, where thresholds are inside the band of borderline scores, `compare` equals the naive loop."""
    data = pippin.load_example()
    values = pippin.compare(data.probs, data.labels, [score], splits=3, seed=5).values[0]
    assert np.array_equal(values, naive(data.probs, data.labels, score, 0.1, 3, 0.45, 5), equal_nan=True)


@every_score
def test_thresholds_outside_the_band_are_counted_too(score, monkeypatch):
    """With a band of width zero, nearly every threshold is outside of it, and `compare` equals the naive loop."""
    monkeypatch.setattr(split_evaluation, "SPREAD", 0)
    data = pippin.load_example()
    values = pippin.compare(data.probs[:500], data.labels[:500], [score], splits=20).values[0]
    assert np.array_equal(values, naive(data.probs[:500], data.labels[:500], score, 0.1, 20, 0.45, 0), equal_nan=True)


@every_score
@pytest.mark.parametrize("kind", ["spread", "tied", "zeros"])
@pytest.mark.parametrize("spread", [0, 1, 6])
def test_numpy_and_compiled_loops_give_the_same_table(score, spread, kind, monkeypatch):
    """NumPy and compiled loops agree for one or many blocks of rows and of splits, and for bands of any width."""
    monkeypatch.setattr(split_evaluation, "SPREAD", spread)
    probs, labels = made_rows(kind, 400, 7, 1), np.random.default_rng(2).integers(0, 3, 400)
    tables = []
    for engine, in_blocks in ((plain, False), (plain, True), (compiled, False), (compiled, True)):
        with monkeypatch.context() as patched:
            patched.setattr(dispatch, "engine_for", lambda work, engine=engine: engine)
            if in_blocks:
                patched.setattr(dispatch, "ALONE", 0)
                patched.setattr(dispatch, "BLOCK", 100)
                patched.setattr(split_evaluation, "CHUNK_ROWS", 1)
            tables.append(pippin.compare(probs, labels, [score], 0.2, splits=9).values)
    assert all(np.array_equal(table, tables[0], equal_nan=True) for table in tables)


def test_splits_of_many_rows_are_counted_exactly():
    """Splits of 250,000 rows are reproducible and have the counts of the naive loop."""
    n = 250_000
    rng = np.random.default_rng(0)
    probs = rng.dirichlet((2, 1, 1), n).astype(np.float32)
    labels = (rng.random(n)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=2)
    names = ("ip", "aps", "socop")
    found = pippin.compare(probs, labels, names, splits=2, seed=7)
    for number, score in enumerate(found.scores):
        assert np.array_equal(found.values[number], naive(probs, labels, score.score, 0.1, 2, 0.45, 7), equal_nan=True)


def test_rows_on_disk_give_the_same_table(tmp_path):
    data = pippin.load_example()
    on_disk = np.memmap(tmp_path / "probs", data.probs.dtype, "w+", shape=data.probs.shape)
    on_disk[:] = data.probs
    names = ("ip", "aps", "pip per class")
    wanted = pippin.compare(data.probs, data.labels, names, splits=6).values
    assert np.array_equal(pippin.compare(on_disk, data.labels, names, splits=6).values, wanted, equal_nan=True)


def test_ranked_rows_have_equal_scores():
    """Scores of sorted rows with ranks as labels equal the scores of the original rows."""
    data = pippin.load_example()
    ranked, ranks = dispatch.ranked_rows(as_rows(data.probs), data.labels)
    for score in EVERY_SCORE:
        assert np.array_equal(
            pippin.scores.score(ranked.array, ranks, score, seed=1),
            pippin.scores.score(data.probs, data.labels, score, seed=1),
        )


def test_a_split_does_not_depend_on_the_other_scores():
    """Split i is the same for all scores and any number of splits, so that differences are paired."""
    data = pippin.load_example()
    alone = pippin.compare(data.probs, data.labels, ["aps"], splits=5).values[0]
    among = pippin.compare(data.probs, data.labels, ["ip", "aps", "socop"], splits=9).values[1]
    assert np.array_equal(alone, among[:5])


def test_seed_and_threads(monkeypatch):
    """The table depends on the seed, not on the number of threads."""
    data = pippin.load_example()

    def table(seed):
        return pippin.compare(data.probs, data.labels, ["pip", "raps"], splits=40, seed=seed).values

    first = table(1)
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "1")
    assert np.array_equal(table(1), first)
    assert not np.array_equal(table(2), first)


def test_the_table_and_its_summary():
    """The table has one row per score and split, with documented columns; the summary has the means."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, ["ip", "pip(beta=2)"], splits=7)
    assert comparison.table.columns == ["score", "split", *METRICS]
    assert comparison.table["score"].to_list() == ["ip"] * 7 + ["pip(beta=2)"] * 7
    assert comparison.table["split"].to_list() == [*range(7)] * 2
    summary = comparison.summary()
    assert summary["score"].to_list() == ["ip", "pip(beta=2)"]
    rows = comparison.table.filter(comparison.table["score"] == "ip")
    assert summary["mean_size"][0] == pytest.approx(rows["mean_size"].mean())
    assert summary["coverage_sd"][0] == pytest.approx(rows["coverage"].std())


def test_scores_are_ordered_as_in_the_paper():
    """IP has the smallest sets, margin the largest and the most singletons; PIP and RePIP lie between."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, splits=200)
    size, single = (
        dict(zip(map(str, comparison.scores), comparison.metric(m).mean(axis=1), strict=True))
        for m in ("mean_size", "singleton_rate")
    )
    assert min(size, key=size.get) == "ip"
    assert max(size, key=size.get) == "margin"
    assert max(single, key=single.get) == "margin"
    assert single["margin"] > single["pip"] > single["repip"] > max(single["ip"], single["aps"], single["raps"])
    assert size["pip"] - size["repip"] > 0.1
    assert single["pip"] - single["repip"] < 0.02


def test_a_sweep_is_a_comparison():
    """A sweep compares all values on the same splits, and RePIP with gamma = 0 equals PIP."""
    data = pippin.load_example()
    swept = pippin.sweep(data.probs, data.labels, "repip", parameter="gamma", values=(0, 0.5), splits=9)
    compared = pippin.compare(data.probs, data.labels, ["pip", "repip(gamma=0.5)"], splits=9)
    assert np.array_equal(swept.comparison.values, compared.values)
    assert swept.table["gamma"].to_list() == [0.0] * 9 + [0.5] * 9
    assert swept.summary()["gamma"].to_list() == [0.0, 0.5]


@pytest.mark.parametrize(
    ("score", "parameter"),
    [("repip", "gamma"), ("raps", "lam"), ("saps", "lam"), ("pip", "beta"), ("socop", "mu")],
)
def test_a_sweep_varies_the_first_parameter_by_default(score, parameter):
    """If no parameter is named, a sweep varies the first parameter of the score."""
    data = pippin.load_example()
    assert pippin.sweep(data.probs[:100], data.labels[:100], score, values=(0, 1), splits=1).parameter == parameter


WRONG = {
    "no scores": ({"scores": []}, "at least one score"),
    "no splits": ({"splits": 0}, "at least one split, got 0"),
    "half a split": ({"splits": 2.5}, "at least one split, got 2.5"),
    "fraction 0": ({"calibration_fraction": 0}, "strictly between 0 and 1, got 0"),
    "fraction 1": ({"calibration_fraction": 1.0}, "strictly between 0 and 1"),
    "nothing left": ({"calibration_fraction": 0.0001}, "enough rows for both"),
    "negative seed": ({"seed": -1}, "seed that is a whole number of at least 0, got -1"),
    "no seed": ({"seed": None}, "seed that is a whole number"),
    "alpha": ({"alpha": 2}, "strictly between 0 and 1, got 2"),
    "score": ({"scores": ["nope"]}, "Unknown score 'nope'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_raises_an_error_with_a_remedy(case):
    """Messages name what was expected, what was received, and a remedy."""
    data = pippin.load_example()
    options, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        pippin.compare(data.probs[:200], data.labels[:200], **options)


@pytest.mark.parametrize(
    ("score", "parameter", "message"),
    [
        ("ip", None, "The score ip has no parameter to sweep: choose repip"),
        ("repip", "lam", r"Expected a parameter of repip \(gamma, k_reg, beta\), got 'lam'"),
        ("aps", "randomized", "The score aps has no parameter to sweep"),
    ],
)
def test_an_unknown_parameter_is_an_error(score, parameter, message):
    """The message names the parameters of the score."""
    data = pippin.load_example()
    with pytest.raises(ValueError, match=message):
        pippin.sweep(data.probs, data.labels, score, parameter=parameter)


def test_too_few_rows_give_full_sets():
    """With too few rows, a warning is issued, thresholds are infinite, and every set holds all classes."""
    data = pippin.load_example()
    with pytest.warns(UserWarning, match="too few"):
        comparison = pippin.compare(data.probs[:10], data.labels[:10], "ip", splits=2)
    assert comparison.summary()["threshold_sd"].to_list() == [0]
    values = comparison.values[0]
    assert values[:, :5].tolist() == [[math.inf, 1, 12, 0, 0]] * 2
    assert np.isnan(values[:, 5]).all()


CHECKPOINTED = """
import sys, pippin
data = pippin.load_example()
pippin.compare(data.probs, data.labels, ["pip", "aps"], splits=2000, checkpoint=sys.argv[1])
"""


def test_a_killed_run_continues_from_its_checkpoint(tmp_path):
    """A run killed before or after a checkpoint is renamed gives the same table when it is continued."""
    data = pippin.load_example()
    path = tmp_path / "kept.npz"
    lengths = []
    for event, number, after in (("os:replace", 2, True), ("write", 2, False), ("os:replace", 3, False)):
        done = run_until(event, number, path, after=after, code=CHECKPOINTED)
        assert done.returncode == -9
        with np.load(path) as kept:
            lengths.append(kept["values"].shape[1])
    assert lengths == [2 * AT_ONCE, 3 * AT_ONCE, 5 * AT_ONCE]
    splits = lengths[-1] + 100
    resumed = pippin.compare(data.probs, data.labels, ["pip", "aps"], splits=splits, checkpoint=str(path)).values
    assert np.array_equal(resumed, pippin.compare(data.probs, data.labels, ["pip", "aps"], splits=splits).values)


@pytest.mark.parametrize("change", [{"seed": 1}, {"alpha": 0.2}, {"scores": ["pip"]}, {"calibration_fraction": 0.5}])
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change):
    """The checkpoint of another comparison is neither overwritten nor used."""
    data = pippin.load_example()
    path = str(tmp_path / "kept.npz")
    same = {"scores": ["ip"], "splits": 10, "checkpoint": path}
    pippin.compare(data.probs, data.labels, **same)
    with pytest.raises(ValueError, match="of another run"):
        pippin.compare(data.probs, data.labels, **{**same, **change})
    other = data.probs[::-1].copy()
    with pytest.raises(ValueError, match="of another run"):
        pippin.compare(other, data.labels, **same)


def test_a_damaged_checkpoint_is_an_error(tmp_path):
    """A damaged checkpoint raises an error of one sentence."""
    data = pippin.load_example()
    path = tmp_path / "kept.npz"
    path.write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(ValueError, match="not a checkpoint, or is damaged"):
        pippin.compare(data.probs, data.labels, ["ip"], splits=2, checkpoint=str(path))


def test_scores_that_coincide_share_a_line():
    """Scores with equal sets in all splits, as most have with two classes, share a line in print."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 2, 800)
    probs, labels = np.stack([1 - p, p], axis=1), (rng.random(800) < p).astype(int)
    comparison = pippin.compare(probs, labels, splits=20)
    assert [str(method) for method in comparison.distinct.scores] == ["ip", "aps"]
    printed = str(comparison).splitlines()
    assert [line.split("  ")[0] for line in printed[2:4]] == ["ip = margin = pip = repip", "aps = raps"]
    assert printed[-1].startswith("With two classes these scores order the labels alike, so ip, margin, pip and repip")
    assert "ip = margin = pip = repip" in comparison._repr_html_()
    assert len(comparison.summary()) == 6
    sizes = {score: comparison.metric("mean_size")[i].tolist() for i, score in enumerate(map(str, comparison.scores))}
    assert sizes["ip"] == sizes["margin"] == sizes["pip"] == sizes["repip"] != sizes["aps"]


def test_restricted_comparison_keeps_the_order_of_the_methods():
    """`restricted` returns the methods in the given order, also if all methods of the comparison are given."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, ("ip", "repip"), splits=2)
    reordered = comparison.restricted(comparison.scores[::-1])
    assert [str(method) for method in reordered.scores] == ["repip", "ip"]
    assert np.array_equal(reordered.metric("mean_size"), comparison.metric("mean_size")[::-1])
    assert comparison.restricted(comparison.scores) is comparison.restricted(()) is comparison


def test_print_shows_the_means():
    """`print` shows a line per score, with the means of the summary."""
    data = pippin.load_example()
    comparison = pippin.compare(data.probs, data.labels, ("ip", "repip"), splits=20)
    title, heads, first, second = str(comparison).splitlines()
    assert title.startswith("Comparison(ip, repip; 20 splits of 4,986 rows), 90% requested")
    assert heads.split()[:5] == ["score", "coverage", "size", "singletons", "empty"]
    for line, row in zip((first, second), comparison.summary().iter_rows(named=True), strict=True):
        assert line.split()[:3] == [row["score"], f"{row['coverage']:.1%}", f"{row['mean_size']:.2f}"]
    assert comparison.distinct is comparison
