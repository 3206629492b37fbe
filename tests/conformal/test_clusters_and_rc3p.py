"""Taxonomies for rare classes: clusters of classes and RC3P, in comparison with TorchCP."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.cluster import KMeans

import pippin
from pippin._conformal.clusters import NULL, cluster_categories, cluster_scores, clusters_of, kmeans, plan
from pippin._conformal.mondrian import rc3p_limits, sort_into_categories
from pippin._conformal.predictor import mondrian_of
from pippin._engine import dispatch
from pippin._theory.level import examples_needed, quantile_rank
from pippin._validation.rows import as_rows
from support import peers
from support.rows import made_rows

DATA = pippin.load_example()
PROBS, LABELS = np.array(DATA.probs, dtype=np.float64), np.array(DATA.labels)

torchcp_warns = pytest.mark.filterwarnings(
    "ignore:The 'temperature' parameter is deprecated:DeprecationWarning", "ignore:The value of quantile exceeds 1"
)


def torchcp(kind, probs, labels, alpha=0.1):
    """Return a calibrated TorchCP predictor; its RC3P needs the number of classes first."""
    import torch

    predictor = peers.torchcp_predictor(kind, alpha)
    predictor.num_classes = probs.shape[1]
    predictor.calculate_threshold(torch.from_numpy(probs), torch.from_numpy(labels))
    return predictor, lambda test: predictor.predict_with_logits(torch.from_numpy(test)).numpy().astype(bool)


# Clusters


def test_kmeans_is_as_good_as_scikit_learns():
    """On 20 synthetic problems, the mean inertia of the best of ten starts equals scikit-learn's."""
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points = np.sort(rng.random((rng.integers(8, 120), 6)) ** rng.integers(1, 4), axis=1)
        points += rng.integers(0, 4, (len(points), 1))
        weights = np.sqrt(rng.integers(9, 400, len(points)))
        n_clusters = int(rng.integers(2, 8))
        parts, inertia = kmeans(points, weights, n_clusters, np.random.default_rng(seed))
        theirs = KMeans(n_clusters, n_init=10, random_state=seed).fit(points, sample_weight=weights)
        ratios.append(inertia / theirs.inertia_)
        centers = [np.average(points[parts == c], axis=0, weights=weights[parts == c]) for c in range(n_clusters)]
        by_hand = sum(w * ((p - centers[c]) ** 2).sum() for p, w, c in zip(points, weights, parts, strict=True))
        assert inertia == pytest.approx(by_hand)
        again, _ = kmeans(points, weights, n_clusters, np.random.default_rng(seed))
        assert np.array_equal(again, parts)
    assert max(ratios) < 1.1
    assert np.mean(ratios) < 1.005


def test_kmeans_with_fewer_points_than_clusters():
    """With fewer points than clusters, equal points are in one cluster, and some clusters are empty."""
    points = np.repeat([[0.0, 1.0], [2.0, 3.0]], [5, 4], axis=0)
    parts, inertia = kmeans(points, np.ones(9), 4, np.random.default_rng(0))
    assert inertia == 0
    assert len(set(parts[:5])) == len(set(parts[5:])) == 1
    assert parts[0] != parts[5]


def test_classes_with_similar_scores_share_a_cluster():
    """Classes with three different score distributions form three clusters; a class with 8 rows is not clustered."""
    rng = np.random.default_rng(1)
    labels = np.concatenate([np.repeat(np.arange(12), 60), np.full(8, 12)])
    scores = rng.random(len(labels)) + np.array([2, 0, 1])[labels % 3]
    found = clusters_of(scores, labels, 14, 0.1, 3, rng)
    assert found.tolist() == [2, 0, 1] * 4 + [NULL, NULL]
    infinite = np.where(scores > 2.3, np.inf, scores)
    assert clusters_of(infinite, labels, 14, 0.1, 3, rng).tolist() == found.tolist()


@pytest.mark.parametrize(("third", "wanted"), [(2.5, [0, 0, 1]), (2.2, [0, 1, 1])])
def test_the_weight_of_a_class_is_the_root_of_its_count(third, wanted):
    """k-means weights a class by the square root of its count; other weights would give other clusters here."""
    counts = [36, 900, 9]
    scores = np.repeat([0.0, 1.0, third], counts)
    found = clusters_of(scores, np.repeat(np.arange(3), counts), 3, 0.1, 2, np.random.default_rng(0))
    assert found.tolist() == wanted


def test_the_seed_draws_u_then_the_split_then_the_starts():
    """A seed and its generator give equal results, and rows used for clustering do not calibrate."""
    probs, labels = PROBS[:2500], LABELS[:2500]
    predictor = pippin.calibrate(probs, labels, "aps", seed=4, per="cluster")
    rng = np.random.default_rng(4)
    scores = dispatch.label_scores(as_rows(probs), labels, pippin.scores.aps(), rng.random(2500))
    rarest = int(np.bincount(labels).min())
    aside, n_clusters = rarest * 12 // 87, rarest * 12 // 87 // 2
    assert plan(np.bincount(labels), 0.1) == (aside / rarest, n_clusters)
    rest = rng.random(2500) >= aside / rarest
    cluster = clusters_of(scores[~rest], labels[~rest], 12, 0.1, n_clusters, rng)
    assert predictor.n_calibration == rest.sum() < 2500
    for k in range(12):
        mates = np.isin(labels, np.flatnonzero(cluster == cluster[k]))
        own = np.sort(scores[rest & mates])
        assert predictor.thresholds[0, k] == own[quantile_rank(len(own), 0.1) - 1]
    again = pippin.calibrate(probs, labels, "aps", seed=np.random.default_rng(4), per="cluster")
    assert np.array_equal(again.thresholds, predictor.thresholds)
    other = pippin.calibrate(probs, labels, "aps", seed=5, per="cluster")
    assert not np.array_equal(mondrian_of(other).categories.lookup, mondrian_of(predictor).categories.lookup)


def test_the_table_shows_clusters_and_their_rows():
    """Classes of a cluster share n and threshold; others have the marginal threshold without a guarantee."""
    rows = np.flatnonzero((LABELS != 3) | (np.cumsum(LABELS == 3) <= 6))
    predictor = pippin.calibrate(PROBS[rows], LABELS[rows], "pip", 0.1, classes=DATA.classes, seed=0, per="cluster")
    table = predictor.table()
    assert table.columns == ["class", "cluster", "n", "threshold", "expected_coverage", "lacking"]
    lone = table.row(3, named=True)
    assert (lone["class"], lone["cluster"], lone["n"]) == ("common_chickweed", None, predictor.n_calibration)
    assert lone["expected_coverage"] is None
    assert table["expected_coverage"].null_count() == 1
    for _, mates in table.drop_nulls("cluster").group_by("cluster"):
        assert mates["n"].n_unique() == mates["threshold"].n_unique() == 1
    again = predictor.at(0.2)
    assert np.array_equal(mondrian_of(again).categories.lookup, mondrian_of(predictor).categories.lookup)
    assert (again.thresholds <= predictor.thresholds).all()


def test_too_few_rows_to_cluster_warn():
    """All classes have the marginal threshold, all rows calibrate, and a warning is emitted."""
    with pytest.warns(UserWarning, match=r"Too few calibration examples per class to cluster 12 classes: .*") as caught:
        predictor = pippin.calibrate(PROBS[:200], LABELS[:200], "pip", seed=0, per="cluster")
    assert caught[0].filename == __file__
    assert predictor.n_calibration == 200
    assert (predictor.thresholds == pippin.calibrate(PROBS[:200], LABELS[:200], "pip").threshold).all()
    assert predictor.table()["cluster"].to_list() == [0] * 12  # one threshold for all classes


def test_a_cluster_with_too_few_rows_is_named():
    """The warning states that its classes are in every set."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(150), 80)
    probs = np.full((len(labels), 150), 1e-3)
    probs[np.arange(len(labels)), labels] = rng.random(len(labels)) ** (1 + labels % 50)
    probs /= probs.sum(axis=1, keepdims=True)
    message = r"\d+ of \d+ thresholds are infinite, because alpha=0.02 needs 49 .*the cluster of \d+ has \d+.*: collect"
    with pytest.warns(UserWarning, match=message):
        predictor = pippin.calibrate(probs, labels, "ip", 0.02, seed=0, per="cluster")
    few = mondrian_of(predictor).categories.counts[mondrian_of(predictor).categories.lookup[0]] < 49
    assert few.any()
    assert np.array_equal(np.isinf(predictor.thresholds[0]), few)
    assert predictor.predict(probs[:10]).mask[:, few].all()


def test_clusters_have_the_exact_coverage_distribution():
    """Given the clusters, coverage of a cluster with n rows is Beta(k, n + 1 − k), also for the null cluster.

    So all rows together are covered at the level too. Scores have the known distributions P(S ≤ s) = s^a, so coverage
    is computed exactly, over 500 calibrations.
    """
    rng = np.random.default_rng(12)
    share = rng.dirichlet(np.full(14, 4.0))
    share[0] = 0.004  # a class too rare to cluster
    share /= share.sum()
    power = np.array([1.0, 1.1, 3.0, 3.3, 8.0, 9.0, 1.2])[np.arange(14) % 7]
    alpha = 0.2
    in_clusters, in_null, overall = [], [], []
    for seed in range(500):
        labels = rng.choice(14, 1500, p=share)
        scores = rng.random(1500) ** (1 / power[labels])
        categories, n_rest, _ = cluster_categories(scores, labels, 14, alpha, np.random.default_rng(seed))
        null = categories.lookup[0, 0]
        assert null == categories.lookup.max()
        overall.append((share * categories.thresholds(alpha)[categories.lookup[0]] ** power).sum())
        for category, (threshold, n) in enumerate(
            zip(categories.thresholds(alpha), categories.counts.tolist(), strict=True)
        ):
            mates = (categories.lookup[0] == category) | (
                n == n_rest
            )  # with too few rows, the null cluster pools all scores
            covered = (share * threshold**power)[mates].sum() / share[mates].sum()
            k = quantile_rank(n, alpha)
            (in_null if category == null else in_clusters).append(stats.beta.cdf(covered, k, n + 1 - k))
    assert len(in_clusters) > 1000
    assert stats.kstest(in_clusters, "uniform").pvalue > 0.01
    assert stats.kstest(in_null, "uniform").pvalue > 0.01
    assert 0.8 - 0.001 < np.mean(overall) < 0.8 + 14 / 1500


@torchcp_warns
def test_torchcps_thresholds_agree_except_for_the_null_cluster():
    """With TorchCP's split and clusters the thresholds are equal, except that its null cluster has an infinite one."""
    import torch

    rows = np.flatnonzero((LABELS[:3000] != 3) | (np.cumsum(LABELS[:3000] == 3) <= 60))
    probs, labels = PROBS[rows], LABELS[rows]
    torch.manual_seed(0)
    theirs, _ = torchcp("ClusteredPredictor", probs, labels)
    aside, cluster = theirs.idx1.numpy(), theirs.cluster_assignments.numpy().astype(int)
    scores = pippin.scores.score(probs, labels, "ip")
    categories = cluster_scores(scores[~aside], labels[~aside], cluster, np.ones(12, dtype=bool), 9)
    ours = categories.thresholds(0.1)[categories.lookup[0]]
    known = cluster != NULL
    assert 3 < known.sum() < 12
    assert theirs.num_clusters == plan(np.bincount(labels), 0.1)[1]
    assert np.array_equal(theirs.q_hat.numpy()[known], ours[known].astype(np.float32))
    assert np.isinf(theirs.q_hat.numpy()[~known]).all()
    null = ~aside & ~known[labels]
    assert (ours[~known] == pippin.calibrate(probs[null], labels[null], "ip").threshold).all()


@torchcp_warns
def test_many_rows_of_few_classes_give_a_cluster_per_class():
    """With more clusters than classes each class is a cluster; TorchCP's thresholds are infinite in this case."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 1000)
    probs = made_rows("spread", 5000, 5, 0)
    predictor = pippin.calibrate(probs, labels, "ip", seed=rng, per="cluster")
    assert sorted(mondrian_of(predictor).categories.lookup[0]) == [0, 1, 2, 3, 4]
    assert np.isfinite(predictor.thresholds).all()
    theirs, _ = torchcp("ClusteredPredictor", probs, labels)
    assert np.isinf(theirs.q_hat.numpy()).all()


def test_a_class_without_calibration_rows_has_the_marginal_threshold():
    """The null cluster has no calibration rows (TorchCP uses the threshold of the last cluster in this case)."""
    scores = np.arange(40) / 40
    categories = cluster_scores(scores, np.repeat([0, 1], 20), np.array([0, 1, NULL]), np.ones(3, dtype=bool), 9)
    thresholds = categories.thresholds(0.1)[categories.lookup[0]]
    assert thresholds.tolist() == [18 / 40, 38 / 40, 36 / 40]


def test_a_class_without_rows_pools_all_scores():
    """A class without rows has the marginal threshold; rare classes with rows keep the null cluster's threshold."""
    scores, labels = np.arange(60) / 60, np.repeat([0, 1, 2], 20)
    categories = cluster_scores(scores, labels, np.array([0, 1, NULL, NULL]), np.arange(4) < 3, 9)
    assert categories.counts.tolist() == [20, 20, 20, 60]
    assert categories.thresholds(0.1)[categories.lookup[0]].tolist() == [18 / 60, 38 / 60, 58 / 60, 54 / 60]


# RC3P


def limits_of(scores, ranks, alpha, n_classes):
    """Return both limits of one class from its calibration examples."""
    categories = sort_into_categories(
        np.asarray(scores, dtype=float), np.zeros(len(scores), dtype=int), np.zeros((1, n_classes), dtype=int), ranks
    )
    limits = rc3p_limits(categories, alpha)
    return limits.scores[0, 0], limits.ranks[0, 0]


examples = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 8)), min_size=2, max_size=45)


@given(examples=examples, alpha=st.sampled_from((0.05, 0.1, 0.2, 0.3, 0.5)))
def test_rc3p_covers_every_class_whatever_its_scores_and_ranks(examples, alpha):
    """If each of n + 1 examples is left out of the calibration in turn, at most ⌊(n + 1)α⌋ are not covered.

    This implies the guarantee, since each of n + 1 exchangeable rows is equally likely to be the new one.
    """
    scores, ranks = np.array(examples).T
    lost = 0
    for i in range(len(examples)):
        others = np.arange(len(examples)) != i
        score, rank = limits_of(scores[others], ranks[others], alpha, 8)
        lost += scores[i] > score or ranks[i] > rank
    assert lost <= math.floor(len(examples) * Fraction(str(alpha)))


@given(examples=examples, alpha=st.sampled_from((0.1, 0.2, 0.3)))
def test_rc3p_limits_are_the_smallest_with_enough_coverage(examples, alpha):
    """Both limits equal those of an exhaustive search over all rank limits and all scores."""
    scores, ranks = np.array(examples).T
    score, rank = limits_of(scores, ranks, alpha, 8)
    spare = len(examples) - quantile_rank(len(examples), alpha)
    if spare < 0:
        assert (score, rank) == (math.inf, 8)
        return
    smallest = min(k for k in range(1, 9) if (ranks > k).sum() <= spare)
    assert rank == smallest
    if (ranks >= smallest).sum() == spare + 1:
        assert score == math.inf
    else:
        spare -= (ranks > smallest).sum()
        assert score == min(s for s in scores if (scores > s).sum() <= spare)


def rows_with_ranks_against_scores():
    """Return ten rows of class 0 in which its rank increases with its probability."""
    probs = np.empty((10, 60))
    for i in range(10):
        own = 0.05 + 0.0001 * i
        probs[i] = (1 - own - 0.07 * i) / (59 - i)
        probs[i, 0] = own
        probs[i, 1 : 1 + i] = 0.07
    return probs


@torchcp_warns
def test_rc3p_covers_where_the_published_rule_does_not():
    """Of ten examples at α = 0.1, one may be missed; TorchCP misses two, one by rank and one by score."""
    probs, labels = rows_with_ranks_against_scores(), np.zeros(10, dtype=int)
    ours = theirs = 0
    for i in range(10):
        others = np.arange(10) != i
        with pytest.warns(UserWarning, match="59 of 60 thresholds are infinite"):
            predictor = pippin.calibrate(probs[others], labels[others], "ip", per="rc3p")
        ours += not predictor.predict(probs[i : i + 1]).mask[0, 0]
        _, predict = torchcp("RC3PPredictor", probs[others], labels[others])
        theirs += not predict(probs[i : i + 1])[0, 0]
    assert (ours, theirs) == (1, 2)


@torchcp_warns
@pytest.mark.parametrize("n", [1998, 2500, 3000])
def test_torchcps_rc3p_sets_agree_for_equal_quantiles(n):
    """Sets equal those of TorchCP for classes where both definitions give the same quantile of the scores."""
    predictor = pippin.calibrate(PROBS[:n], LABELS[:n], "ip", per="rc3p")
    theirs, predict = torchcp("RC3PPredictor", PROBS[:n], LABELS[:n])
    sets, their_sets = predictor.predict(PROBS[n:]).mask, predict(PROBS[n:])
    near = np.abs(1 - PROBS[n:] - predictor.thresholds) < 1e-7  # TorchCP keeps thresholds in 32 bits
    assert near.mean() < 0.03
    ranks = dispatch.label_ranks(as_rows(PROBS[:n]), LABELS[:n]) + 1
    alike = []
    for k in range(12):
        own = ranks[LABELS[:n] == k]
        count, lost = len(own), int((own > predictor.rank_limits[0, k]).sum())
        published = Fraction(1, 10) - Fraction(lost, count)
        same_count = math.ceil((count + 1) * (1 - published)) == quantile_rank(count, 0.1) + lost
        if same_count and theirs.class_rank_limits[k] == predictor.rank_limits[0, k]:
            assert np.array_equal((sets | near)[:, k], (their_sets | near)[:, k])
            alike.append(k)
    assert len(alike) >= 8


def test_rc3p_bounds_the_rank_of_a_class_in_every_set():
    """On the example data RC3P gives smaller sets than PIP per class, with coverage of each class."""
    sizes = {}
    for per in ("class", "rc3p"):
        predictor = pippin.calibrate(PROBS[::2], LABELS[::2], "pip", per=per)
        sets = predictor.predict(PROBS[1::2])
        sizes[per] = sets.sizes.mean()
        inside = sets.contains(LABELS[1::2])
        assert min(inside[LABELS[1::2] == k].mean() for k in range(12)) > 0.8
    assert sizes["rc3p"] < 0.8 * sizes["class"]
    at = np.repeat(np.arange(len(sets)), sets.sizes)
    ranks = np.argsort(np.argsort(-PROBS[1::2], axis=1, kind="stable"), axis=1)[at, sets.members] + 1
    assert (ranks <= predictor.rank_limits[0, sets.members]).all()
    assert "rank_limit" in predictor.table().columns


def test_rc3p_covers_at_least_the_expected_coverage_of_its_table():
    """RC3P covers each class at least as often as its table states, over 400 calibrations of a known population."""
    rng = np.random.default_rng(5)
    probs = rng.dirichlet((1.5, 1, 0.7, 0.4), 30_000)
    labels = (rng.random(len(probs))[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(max=3)
    scores, ranks = pippin.scores.score(probs, labels, "repip"), dispatch.label_ranks(as_rows(probs), labels) + 1
    covered = np.zeros((400, 4))
    for draw in covered:
        rows = np.concatenate([rng.choice(np.flatnonzero(labels == k), 19 + 10 * k) for k in range(4)])
        predictor = pippin.calibrate(probs[rows], labels[rows], "repip", 0.2, per="rc3p")
        inside = (scores <= predictor.thresholds[0, labels]) & (ranks <= predictor.rank_limits[0, labels])
        draw[:] = np.bincount(labels, inside) / np.bincount(labels)
    expected = predictor.table()["expected_coverage"].to_numpy()
    assert expected == pytest.approx([math.ceil(Fraction(4, 5) * (n + 1)) / (n + 1) for n in (19, 29, 39, 49)])
    assert (covered.mean(axis=0) > expected - 3 * covered.std(axis=0) / 20).all()


@pytest.mark.parametrize("per", ["rc3p", "class"])
def test_a_class_that_is_in_every_set_is_described(per):
    """The description names the classes that are in every set because they have too few rows."""
    infinite = "; where its threshold is infinite, by too few rows, a class is in every set."
    rows = np.concatenate([np.flatnonzero(k == LABELS)[: 8 if k == 3 else 60] for k in range(12)])
    with pytest.warns(UserWarning, match="thresholds are infinite"):
        predictor = pippin.calibrate(PROBS[rows], LABELS[rows], "repip", per=per)
    assert predictor.predict(PROBS[:200]).mask[:, 3].all()
    assert predictor.describe().endswith(infinite)
    assert infinite not in pippin.calibrate(PROBS, LABELS, "repip", per=per).describe()


# Per class


@torchcp_warns
@pytest.mark.parametrize("n", [1998, 2500, 3000])
def test_torchcps_class_conditional_sets_agree(n):
    """The membership masks are equal."""
    ours = pippin.calibrate(PROBS[:n], LABELS[:n], "ip", per="class").predict(PROBS[n:]).mask
    _, predict = torchcp("ClassConditionalPredictor", PROBS[:n], LABELS[:n])
    assert np.array_equal(ours, predict(PROBS[n:]))


@torchcp_warns
def test_the_quantile_per_class_is_exact_where_torchcps_is_not():
    """α = 0.4, 24 examples: the 15th smallest; in 32-bit floats 25 · 0.6 is more than 15."""
    rows = np.concatenate([np.flatnonzero(LABELS[:4000] == k)[:24] for k in range(12)])
    ours = pippin.calibrate(PROBS[rows], LABELS[rows], "ip", 0.4, per="class").thresholds[0]
    theirs, _ = torchcp("ClassConditionalPredictor", PROBS[rows], LABELS[rows], 0.4)
    scores = np.sort(pippin.scores.score(PROBS[rows], LABELS[rows], "ip").reshape(12, 24), axis=1)
    assert np.array_equal(ours, scores[:, 14])
    assert np.array_equal(theirs.q_hat.numpy(), scores[:, 15].astype(np.float32))
    assert examples_needed(0.4) == 2
