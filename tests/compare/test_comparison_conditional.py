"""Methods with several thresholds in `compare`: equality with a naive loop, and conditional coverage."""

import warnings

import numpy as np
import pytest

import pippin
from pippin._compare.split_evaluation import METRICS
from pippin._engine import dispatch
from support.rows import made_rows

SCORES = ("pip", "aps", "socop")
ENDS = (
    "per class",
    "per group",
    "per class and group",
    "per cluster",
    "rc3p",
    "interpolated",
    "nonempty",
    "per class nonempty",
)
quiet = pytest.mark.filterwarnings("ignore:.*(infinite|fewer in a split|to cluster|too few|no room for)")


def made(kind, n, n_classes, seed=0):
    """Return rows of a kind, labels that are often the most probable class, and two groups."""
    rng = np.random.default_rng(seed)
    probs = made_rows(kind, n, n_classes, seed)
    labels = np.where(rng.random(n) < 0.6, probs.argmax(axis=1), rng.integers(0, n_classes, n))
    return probs, labels, np.where(rng.random(n) < 0.4, "north", "south")


def naive(probs, labels, groups, method, alpha, splits, fraction, seed, pooled=None):
    """Calibrate, predict and evaluate every split with the public functions."""
    n, found = len(labels), []
    for index in range(splits):
        generator = np.random.default_rng([seed, index])
        inner = np.sort(generator.choice(n, round(fraction * n), replace=False, shuffle=False))
        outer = np.setdiff1d(np.arange(n), inner)
        by_group = method.per in ("group", "class and group")
        own, asked = ({"groups": groups[part]} if by_group else {} for part in (inner, outer))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if method.combination is not None:
                predictor = pippin.calibrate(probs[inner], labels[inner], method.combination, alpha, seed=generator)
                asked = {}
            else:
                predictor = pippin.calibrate(
                    probs[inner], labels[inner], method.score, alpha, seed=generator, per=method.per, **own
                )
                asked["seed"] = generator
        sets = predictor.predict(probs[outer], nonempty=method.nonempty, **asked)
        result = pippin.evaluate(sets, labels[outer])
        threshold = np.nan if method.per or method.combination else predictor.threshold
        rates = result.coverage, result.mean_size, result.singleton_rate, result.empty_rate
        found.append((threshold, *rates, result.size_coverage.get(1, np.nan)))
        if pooled is not None:
            pooled.append((sets.sizes, sets.contains(labels[outer]), labels[outer], groups[outer]))
    return np.array(found)


@quiet
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", ["spread", "tied", "zeros"])
def test_splits_are_counted_exactly(score, end, kind, monkeypatch):
    """`compare` equals the naive loop to the last bit, also with ties and infinite thresholds, in one block or many."""
    method = pippin.scores.parse_method(f"{score} {end}")
    for n, n_classes, alpha, block in ((160, 4, 0.2, dispatch.BLOCK), (60, 6, 0.1, 50)):
        probs, labels, groups = made(kind, n, n_classes, n)
        monkeypatch.setattr(dispatch, "BLOCK", block)
        monkeypatch.setattr(dispatch, "ALONE", block)
        values = pippin.compare(
            probs, labels, [method], alpha, splits=3, calibration_fraction=0.5, seed=3, groups=groups
        ).values[0]
        assert np.array_equal(values, naive(probs, labels, groups, method, alpha, 3, 0.5, 3), equal_nan=True)


@quiet
@pytest.mark.parametrize("method", ["ip/ms", "ip/ms(variant=sum)", "ip/ms(variant=none)", "ip/ms nonempty"])
@pytest.mark.parametrize("kind", ["spread", "tied", "zeros"])
def test_the_combination_is_counted_exactly(method, kind):
    """`compare` equals the naive loop for IP/MS, also if the margin's errors exceed alpha."""
    chosen = pippin.scores.parse_method(method)
    assert str(chosen) == method
    for n, alpha in ((400, 0.3), (160, 0.2), (60, 0.1)):
        probs, labels, groups = made(kind, n, 4, n)
        values = pippin.compare(probs, labels, [method], alpha, splits=3, calibration_fraction=0.5, seed=3).values[0]
        assert np.array_equal(values, naive(probs, labels, groups, chosen, alpha, 3, 0.5, 3), equal_nan=True)


@pytest.mark.parametrize(
    "method",
    ["pip per class", "aps per class", "repip rc3p", "raps per cluster", "ip nonempty", "ip/ms", "ip/ms(variant=none)"],
)
def test_splits_of_the_example_are_counted_exactly(method):
    """Counts on real rows equal those of the naive loop."""
    data, chosen = pippin.load_example(), pippin.scores.parse_method(method)
    values = pippin.compare(data.probs, data.labels, [method], splits=2, seed=5).values[0]
    assert np.array_equal(values, naive(data.probs, data.labels, None, chosen, 0.1, 2, 0.45, 5), equal_nan=True)


@quiet
@pytest.mark.parametrize("method", ["pip", "aps", "margin", "pip per class", "aps per group nonempty", "topk"])
def test_conditional_coverage_is_counted_exactly(method):
    """Coverage by class, by group and by set size equals that of plain loops over the sets of all splits."""
    probs, labels, groups = made("spread", 150, 14)
    names = tuple("abcdefghijklmn")
    chosen, pooled, alpha = pippin.scores.parse_method(method), [], 0.3
    naive(probs, labels, groups, chosen, alpha, 7, 0.45, 0, pooled)
    sizes, covered, truth, where = (np.concatenate(part) for part in zip(*pooled, strict=True))
    found = pippin.compare(probs, labels, [method], alpha, splits=7, classes=names, groups=groups)
    by_class = {names[k]: covered[truth == k].mean() for k in range(14) if (truth == k).any()}
    by_group = {name: covered[where == name].mean() for name in ("north", "south")}
    strata = [covered[(sizes >= low) & (sizes <= high)] for low, high in ((0, 1), (2, 3), (4, 10), (11, 100))]
    row = found.conditional().row(0, named=True)
    assert row["score"] == method
    assert row["worst_class"] == min(by_class, key=by_class.get)
    assert row["worst_class_coverage"] == pytest.approx(min(by_class.values()))
    assert row["covgap"] == pytest.approx(np.mean([abs(share - 0.7) for share in by_class.values()]))
    assert row["sscv"] == pytest.approx(max(abs(part.mean() - 0.7) for part in strata if len(part)))
    assert row["worst_group"] == min(by_group, key=by_group.get)
    assert row["worst_group_coverage"] == pytest.approx(min(by_group.values()))
    table = found.class_coverage()
    assert table.columns == ["score", "class", "n", "coverage"]
    assert dict(zip(table["class"], table["coverage"], strict=True)) == pytest.approx(by_class)
    assert table["n"].to_list() == [n for n in np.bincount(labels, minlength=14).tolist() if n]
    told = found.group_coverage()
    assert dict(zip(told["group"], told["coverage"], strict=True)) == pytest.approx(by_group)


def test_only_the_first_hundred_splits_are_pooled():
    data = pippin.load_example()
    few, many = (pippin.compare(data.probs, data.labels, ["ip"], splits=splits) for splits in (100, 120))
    assert few.conditional().equals(many.conditional())


def test_a_guarantee_per_class_holds_for_every_class():
    """On the example every class reaches the level per class; the marginal guarantee leaves some far below."""
    data = pippin.load_example()
    found = pippin.compare(data.probs, data.labels, ["pip", "pip per class"], splits=100, classes=data.classes)
    plain, conditional = found.conditional()["worst_class_coverage"]
    assert plain < 0.75
    assert conditional > 0.89
    assert found.conditional()["covgap"][1] < 0.01
    assert "worst_group" not in found.conditional().columns


def test_threads_and_other_methods_change_nothing(monkeypatch):
    data = pippin.load_example()
    methods = ["pip per class", "aps per class", "pip per cluster", "ip nonempty"]

    def results(chosen):
        found = pippin.compare(data.probs, data.labels, chosen, splits=30)
        return found.values, found.conditional()

    values, table = results(methods)
    monkeypatch.setenv("PIPPIN_NUM_THREADS", "1")
    again, table_again = results(methods)
    assert np.array_equal(values, again, equal_nan=True)
    assert table.equals(table_again)
    assert np.array_equal(results(["margin", "aps per class"])[0][1], values[1], equal_nan=True)


@pytest.mark.parametrize("score", ["pip per class", "aps per cluster"])
def test_a_stopped_run_continues_from_its_checkpoint(tmp_path, score):
    """A checkpoint with fewer splits leads to the same table."""
    data = pippin.load_example()
    options = {"scores": ["ip", score], "checkpoint": str(tmp_path / "kept.npz")}
    pippin.compare(data.probs, data.labels, splits=5, **options)
    resumed = pippin.compare(data.probs, data.labels, splits=12, **options)
    whole = pippin.compare(data.probs, data.labels, options["scores"], splits=12)
    assert np.array_equal(resumed.values, whole.values, equal_nan=True)
    assert resumed.conditional().equals(whole.conditional())


@quiet
def test_a_checkpoint_of_other_methods_or_groups_is_refused(tmp_path):
    """The checkpoint of other methods, groups or class names is refused."""
    probs, labels, groups = made("spread", 100, 3)
    options = {"splits": 3, "checkpoint": str(tmp_path / "kept.npz")}
    pippin.compare(probs, labels, ["ip per class and group"], groups=groups, **options)
    with pytest.raises(ValueError, match="of another run"):
        pippin.compare(probs, labels, ["ip per class"], groups=groups, **options)
    with pytest.raises(ValueError, match="of another run"):
        pippin.compare(probs, labels, ["ip per class and group nonempty"], groups=groups, **options)
    with pytest.raises(ValueError, match="of another run"):
        pippin.compare(probs, labels, ["ip per class and group"], groups=groups[::-1], **options)
    with pytest.raises(ValueError, match="of another run"):
        pippin.compare(probs[:, ::-1], 2 - labels, ["ip per class and group"], groups=groups, **options)


def test_too_few_rows_to_cluster_are_one_warning():
    probs, labels, _ = made("spread", 60, 6)
    with pytest.warns(UserWarning, match="Too few calibration examples per class to cluster") as caught:
        pippin.compare(probs, labels, ["ip per cluster"], splits=30)
    assert len(caught) == 1


def test_rare_classes_are_one_warning():
    """One warning for all splits names the classes and their numbers of rows."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 200)
    labels = np.r_[np.zeros(105, int), np.ones(76, int), np.full(19, 2)]
    with pytest.warns(UserWarning, match=r"needs 9 .* 1 of 3 have fewer in a split: weed has 8\."):  # 8.55 on average
        pippin.compare(probs, labels, ["ip per class"], splits=2, classes=("crop", "soil", "weed"))
    labels = np.r_[np.zeros(120, int), np.ones(76, int), np.full(4, 2)]
    with pytest.warns(UserWarning, match=r"1 of 3 have fewer in a split: weed has 2\.") as caught:
        found = pippin.compare(probs, labels, ["ip per class", "ip rc3p"], splits=30, classes=("crop", "soil", "weed"))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.conditional()
    with pytest.warns(UserWarning, match=r"weed has 8\."):
        pippin.compare(
            probs, np.r_[labels[:181], np.full(19, 2)], ["ip per class"], splits=3, classes=("a", "b", "weed")
        )
    with pytest.warns(UserWarning, match="group 7 has 2"):
        pippin.compare(probs, labels, ["ip per group"], splits=3, groups=np.where(labels == 2, 7, 1))


@quiet
def test_a_group_without_calibration_rows_gets_full_sets():
    """In a split without a calibration row of a group, the group's threshold is infinite."""
    probs, labels, _ = made("spread", 60, 4)
    groups = np.r_[[1], np.zeros(59, int)]
    found = pippin.compare(probs, labels, ["ip per group"], splits=20, groups=groups)
    assert found.group_coverage()["coverage"][1] == 1.0


def test_the_table_and_its_summary():
    """The threshold is NaN for methods with several thresholds, and a number for plain scores."""
    data = pippin.load_example()
    found = pippin.compare(data.probs, data.labels, ["ip", "ip per class", "ip nonempty"], splits=4)
    assert found.scores == (
        pippin.scores.ip(),
        pippin.scores.Method(pippin.scores.ip(), "class"),
        pippin.scores.Method(pippin.scores.ip(), None, True),
    )
    assert found.table.columns == ["score", "split", *METRICS]
    assert found.table["score"].unique(maintain_order=True).to_list() == ["ip", "ip per class", "ip nonempty"]
    summary = found.summary()
    assert np.isnan(summary["threshold"].to_numpy()).tolist() == [False, True, False]
    assert summary["threshold_sd"][0] > 0
    assert summary["empty_rate"][2] == 0
    gaps = pippin.differences(found, "mean_size")
    assert [(str(gap.first), str(gap.second)) for gap in gaps[:1]] == [("ip", "ip per class")]


WRONG = {
    "no groups": ({"scores": ["ip", "ip per group"]}, "Expected groups for ip per group, got none: pass groups="),
    "fewer groups": ({"scores": ["ip"], "groups": [1, 2]}, "Expected 200 groups, one per row"),
    "odd groups": ({"scores": ["ip per group"], "groups": np.zeros(200)}, "all whole numbers or all text"),
    "unknown": ({"scores": ["ip per species"]}, "Cannot read 'per species'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_raises_an_error_with_a_remedy(case):
    data = pippin.load_example()
    options, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        pippin.compare(data.probs[:200], data.labels[:200], splits=2, **options)


def test_without_groups_there_is_no_coverage_per_group():
    data = pippin.load_example()
    with pytest.raises(ValueError, match="compared without groups: pass groups= to compare"):
        pippin.compare(data.probs, data.labels, ["ip"], splits=2).group_coverage()
