"""Interpolated thresholds: exact distribution of coverage, reference computation, files, and invalid use."""

import json
import warnings

import numpy as np
import pytest
from scipy import stats

import pippin

DATA = pippin.load_example()
PROBS, LABELS = DATA.probs, DATA.labels
SPELLINGS = ("interpolated", "interpolated(share=0.4)", "interpolated(share=1, learning_fraction=0.7)")
HALF = 10


def worlds(rng, n, decimals=None):
    """Return n rows of three classes: their labels, and scores whose distribution depends on the class."""
    labels = rng.choice(3, n, p=[0.7, 0.25, 0.05])
    scores = rng.beta(1 + labels, 2)
    return labels, scores if decimals is None else scores.round(decimals)


def rows_of(labels, scores):
    """Return probabilities for which the ip score of the label is the given score."""
    probs = np.repeat(scores[:, None] / 2, 3, axis=1)
    probs[np.arange(len(labels)), labels] = 1 - scores
    return probs


def pairs(learning_labels, learning_scores, labels, scores, share):
    """Compute the pairs (blended level, score) row by row, as the documentation defines them."""
    found = []
    for y, s in zip(labels, scores, strict=True):
        of_class = learning_scores[learning_labels == y]
        everything = np.mean(learning_scores < s)
        weight = share * len(of_class) / (len(of_class) + HALF)
        own = np.mean(of_class < s) if len(of_class) else 0
        found.append((round(everything + weight * (own - everything), 12), s))
    return found


def divided(n, seed, fraction):
    order = np.random.default_rng(seed).permutation(n)
    return np.split(order, [round(fraction * n)])


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize(("per", "share", "fraction"), [(SPELLINGS[0], 0.75, 0.5), (SPELLINGS[2], 1, 0.7)])
def test_sets_and_p_values_follow_from_the_pairs(per, share, fraction, decimals):
    """Sets and p-values equal those computed from the pairs (level, score) of single rows."""
    rng = np.random.default_rng(4)
    labels, scores = worlds(rng, 90, decimals)
    test = rng.dirichlet(np.ones(3), 40)
    predictor = pippin.calibrate(rows_of(labels, scores), labels, "ip", 0.2, per=per, seed=9)
    learning, rest = divided(90, 9, fraction)
    label_scores = pippin.scores.score(rows_of(labels, scores), labels, "ip")
    known = label_scores[learning]
    calibration = pairs(labels[learning], known, labels[rest], label_scores[rest], share)
    every = pippin.scores.score(test, None, "ip")
    expected = np.empty(every.shape)
    for row, of_row in enumerate(every):
        for pair, k in zip(pairs(labels[learning], known, range(3), of_row, share), range(3), strict=True):
            expected[row, k] = (1 + sum(other >= pair for other in calibration)) / (len(rest) + 1)
    assert np.array_equal(predictor.p_values(test), expected)
    for alpha in (0.05, 0.2, 0.5):
        assert np.array_equal(predictor.at(alpha).predict(test).mask, expected > alpha)
    assert predictor.n_calibration == len(rest)
    points = predictor.point_predictions(test)
    assert np.array_equal(points.credibility, expected.max(axis=1))


@pytest.mark.filterwarnings("ignore:All .* rows are classified correctly")
@pytest.mark.parametrize(("n", "alpha", "confidence"), [(60, 0.1, None), (41, 0.25, None), (120, 0.1, 0.9)])
def test_coverage_has_the_beta_distribution(n, alpha, confidence):
    """Given the learning rows, coverage of continuous scores is Beta(k, m + 1 − k) for m calibration rows.

    It is tested in 1,000 simulations by the number of 200 new rows that are covered, which is beta-binomial.
    """
    rng = np.random.default_rng(n)
    m, new = n - round(n / 2), 200
    k = int(np.ceil((m + 1) * (1 - alpha) - 1e-9))
    if confidence is not None:
        k = int(np.argmax(stats.beta.sf(1 - alpha, np.arange(1, m + 1), m - np.arange(m)) >= confidence)) + 1
    covered = np.empty(1000, dtype=int)
    for world in range(1000):
        labels, scores = worlds(rng, n + new)
        predictor = pippin.calibrate(
            rows_of(labels[:n], scores[:n]),
            labels[:n],
            "ip",
            alpha,
            per="interpolated",
            seed=rng,
            confidence=confidence,
        )
        covered[world] = (scores[n:] <= predictor.thresholds[0, labels[n:]] + 1e-12).sum()
    law = stats.betabinom(new, k, m + 1 - k)
    error = law.std() / np.sqrt(1000)
    assert abs(covered.mean() - law.mean()) < 4 * error
    edges = np.unique(law.ppf(np.linspace(0, 1, 11)[1:-1]))
    bins = np.searchsorted(edges, covered)
    chances = np.diff(np.concatenate([[0], law.cdf(edges), [1]]))
    assert stats.chisquare(np.bincount(bins, minlength=len(chances)), 1000 * chances).pvalue > 1e-4


def test_coverage_holds_with_ties_and_few_rows():
    """With ties and few rows, at most ⌊(n + 1)α⌋ of n + 1 calibration rows are not covered, each left out in turn."""
    rng = np.random.default_rng(0)
    for trial in range(20):
        labels, scores = worlds(rng, 40, 1)
        probs = rows_of(labels, scores)
        learning, rest = divided(39, trial, 0.5)
        pool, missed = np.append(rest, 39), 0
        for new in pool.tolist():
            order = np.empty(39, dtype=int)
            order[learning], order[rest] = learning, pool[pool != new]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predictor = pippin.calibrate(probs[order], labels[order], "ip", 0.2, per="interpolated", seed=trial)
            missed += not predictor.predict(probs[[new]]).contains(labels[[new]])[0]
        assert missed <= 0.2 * len(pool)


@pytest.mark.filterwarnings("ignore:All .* rows are classified correctly")
def test_smoothed_p_values_are_uniform_with_ties():
    rng = np.random.default_rng(3)
    p = []
    for seed in range(1500):
        labels, scores = worlds(rng, 31, 1)
        probs = rows_of(labels, scores)
        predictor = pippin.calibrate(probs[:30], labels[:30], "ip", 0.3, per="interpolated", seed=seed)
        p.extend(predictor.p_values(probs[30:], labels[30:], smoothed=True, seed=seed + 5000))
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_the_worst_class_gains_and_sets_stay_small():
    """Coverage of the worst class and set size lie between those of marginal and class-conditional predictors."""
    coverage, sizes = {}, {}
    for per in (None, "interpolated", "class"):
        hits, seen, size = np.zeros(12), np.zeros(12), []
        for split in range(20):
            inner, outer = np.split(np.random.default_rng(split).permutation(len(LABELS)), [2493])
            sets = pippin.calibrate(PROBS[inner], LABELS[inner], "ip", per=per, seed=split).predict(PROBS[outer])
            hits += np.bincount(LABELS[outer], sets.contains(LABELS[outer]), 12)
            seen += np.bincount(LABELS[outer], minlength=12)
            size.append(sets.sizes.mean())
        coverage[per], sizes[per] = (hits / seen).min(), np.mean(size)
    assert coverage[None] < 0.8 < 0.85 < coverage["interpolated"]
    assert sizes[None] < sizes["interpolated"] < sizes["class"]


@pytest.mark.parametrize("per", SPELLINGS)
@pytest.mark.parametrize("score", ["aps", "topk", "ip"])
def test_a_saved_file_gives_the_same_predictor(tmp_path, per, score):
    predictor = pippin.calibrate(
        PROBS[:500], LABELS[:500], score, classes=DATA.classes, per=per, seed=2, confidence=0.8
    )
    predictor.save(tmp_path / "p.json")
    back = pippin.load(tmp_path / "p.json")
    assert back.checksum == predictor.checksum
    assert (repr(back), back.describe(), back.confidence) == (repr(predictor), predictor.describe(), 0.8)
    test = PROBS[500:600]
    assert np.array_equal(back.p_values(test, seed=1), predictor.p_values(test, seed=1))
    assert np.array_equal(back.at(0.3).thresholds, predictor.at(0.3).thresholds)
    predictor.save(tmp_path / "p.json", scores=False)
    back = pippin.load(tmp_path / "p.json")
    assert np.array_equal(back.predict(test, seed=1).mask, predictor.predict(test, seed=1).mask)
    with pytest.raises(pippin.InputError, match="saved without its calibration scores"):
        back.p_values(test)
    with pytest.raises(pippin.InputError, match="saved without its calibration scores"):
        back.at(0.2)


def test_a_class_without_learning_rows_uses_the_pooled_level():
    """A class without learning rows has a finite threshold, a quantile of the scores of all classes."""
    rows = LABELS[:1000] != 3
    predictor = pippin.calibrate(PROBS[:1000][rows], LABELS[:1000][rows], "ip", per="interpolated", seed=0)
    assert np.isfinite(predictor.thresholds).all()
    assert predictor.thresholds[0, 3] == pytest.approx(np.median(predictor.thresholds), abs=0.15)


def test_describe_card_and_table_name_the_guarantee():
    predictor = pippin.calibrate(PROBS[:500], LABELS[:500], "ip", classes=DATA.classes, per="interpolated", seed=2)
    assert repr(predictor) == "ConformalPredictor(ip interpolated, alpha=0.1, 250 calibration examples, 12 classes)"
    assert predictor.describe() == (
        "ip interpolated between marginal and per class, from 250 rows: its sets contain the true class with "
        "probability at least 90%, for a single class only approximately."
    )
    card = predictor.card()
    assert card["How much does it vary between calibrations?"].endswith("(beta distribution, a = 226 and b = 25).")
    assert "Other rows determined how the thresholds of the classes differ." in card["On which condition?"]
    assert predictor.table()["expected_coverage"].to_list() == [226 / 251] * 12


def test_equal_randomness_gives_equal_predictors():
    first, second, other = (
        pippin.calibrate(PROBS[:500], LABELS[:500], "aps", per="interpolated", seed=seed).thresholds
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per": "interpolated(share=0)"}, "Expected a share above 0 and at most 1, got 0: 0.5 is half way"),
        ({"per": "interpolated(learning_fraction=1)"}, "Expected a learning fraction strictly between 0 and 1"),
        ({"per": "interpolated(weight=1)"}, "'interpolated' has no parameter 'weight': it takes share and learning"),
        ({"per": "interpolated", "groups": [1] * 50}, "Expected no groups with per='interpolated', got some"),
        ({"per": "interpolated", "alpha": {"crop": 0.1}}, "Expected one alpha, got one per kind"),
        ({"per": "interpolated", "units": np.arange(50)}, "Expected one of units=, per= or groups="),
    ],
)
def test_invalid_parameters_raise(options, message):
    with pytest.raises(pippin.InputError, match=message.replace("(", r"\(")):
        pippin.calibrate(PROBS[:50], LABELS[:50], **options)


def test_too_few_rows_raise_or_warn():
    with pytest.raises(pippin.InputError, match="Expected rows to learn the blend on and others to calibrate, got 1"):
        pippin.calibrate(PROBS[:1], LABELS[:1], per="interpolated")
    with pytest.warns(UserWarning, match=r"8 calibration examples are too few for alpha=0\.1"):
        predictor = pippin.calibrate(PROBS[:16], LABELS[:16], "ip", per="interpolated", seed=0)
    assert predictor.predict(PROBS[16:20]).mask.all()
    assert predictor.describe().endswith("all its thresholds are infinite, so every set contains all classes.")


def test_tables_and_p_value_exports_raise():
    with pytest.raises(pippin.InputError, match="Expected rows in memory for per='interpolated'"):
        pippin.distributed.Calibration("ip", classes=DATA.classes, per="interpolated")
    predictor = pippin.calibrate(PROBS[:500], LABELS[:500], "ip", per="interpolated", seed=2)
    from pippin._conformal.exportable import exportable_p_values

    with pytest.raises(pippin.InputError, match="Expected a predictor whose p-values follow from scores of a category"):
        exportable_p_values(predictor)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("share", 0.5),
        ("share", 2.0),
        ("learning_counts", [1] * 12),
        ("calibration_levels", None),
        ("thresholds", [[0.5] * 12]),
        ("calibration_scores", [0.5] * 250),
    ],
)
def test_a_damaged_file_raises(tmp_path, key, value):
    from pippin._conformal.serialization import parse_file, write_file

    path = tmp_path / "p.json"
    pippin.calibrate(PROBS[:500], LABELS[:500], "ip", classes=DATA.classes, per="interpolated", seed=2).save(path)
    assert json.loads(path.read_text())["predictor"]["kind"] == "interpolated"
    write_file(path, {**parse_file(path.read_bytes(), path), key: value})
    with pytest.raises(pippin.InputError, match=r"makes no sense|not those of its calibration scores"):
        pippin.load(path)


def test_compare_and_tune_choose_it():
    comparison = pippin.compare(PROBS, LABELS, ["ip", "ip interpolated", "ip per class"], splits=10)
    sizes = comparison.summary()["mean_size"].to_list()
    assert sizes[0] < sizes[1] < sizes[2]
    tuned = pippin.tune(
        PROBS, LABELS, ["ip interpolated(share=0.5)", "ip interpolated(share=1)"], splits=5, prefer="size"
    )
    assert str(tuned.method) == "ip interpolated(share=0.5)"
    predictor = tuned.calibrate(seed=3)
    assert repr(predictor).startswith("ConformalPredictor(ip interpolated, ")
    rows = tuned.calibration_rows
    same = pippin.calibrate(PROBS[rows], LABELS[rows], "ip", per="interpolated(share=0.5)", seed=3)
    assert np.array_equal(predictor.thresholds, same.thresholds)
