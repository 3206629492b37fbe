"""Agreement with MAPIE, TorchCP and crepes on real data, and tests for defects of these libraries.

Masks are compared exactly. On these data no score is within MAPIE's tolerance of 1e-8 of the threshold, and sums are
added in the order of TorchCP.
"""

from pathlib import Path

import numpy as np
import pytest

import pippin
from pippin._engine import dispatch
from pippin._validation.rows import as_rows
from support import peers
from support.engines import one_bound

ALPHA = 0.1
AGREED = 1998  # (n + 1)(1 − α) is not whole: every peer takes the k-th smallest
PARTING = 1999  # it is whole, k = 1800: crepes takes the next one

torchcp_warns = pytest.mark.filterwarnings("ignore:The 'temperature' parameter is deprecated:DeprecationWarning")


def seedlings():
    """Return the embedded example, 4,986 rows of 12 classes."""
    data = pippin.load_example()
    return np.array(data.probs, dtype=np.float64), np.array(data.labels, dtype=np.int64)


def cifar10():
    """Return the probabilities of a VGG16 for the CIFAR-10 test set, 10,000 rows of 10 classes."""
    with np.load(Path(__file__).parents[1] / "data" / "cifar10_vgg16.npz") as data:
        return data["probs"].astype(np.float64), data["labels"].astype(np.int64)


def seedlings_or_not_maize():
    """Return the example as a binary problem: the second species against the others."""
    probs, labels = seedlings()
    return np.column_stack([1 - probs[:, 1], probs[:, 1]]), (labels == 1).astype(np.int64)


@pytest.fixture(params=[seedlings, cifar10, seedlings_or_not_maize], ids=lambda data: data.__name__)
def data(request):
    return request.param()


def split(data, n):
    probs, labels = data
    return probs[:n].copy(), labels[:n].copy(), probs[n:].copy()


def our_sets(probs, labels, test, score):
    return pippin.calibrate(probs, labels, score, ALPHA).predict(test).mask


@pytest.mark.parametrize("n", [AGREED, PARTING])
def test_mapie_lac(data, n):
    """IP's sets equal MAPIE's "lac", also for integer (n + 1)(1 − α)."""
    probs, labels, test = split(data, n)
    np.testing.assert_array_equal(our_sets(probs, labels, test, "ip"), peers.mapie("lac", probs, labels)(test))


@pytest.mark.parametrize("data", [seedlings, cifar10], indirect=True)  # MAPIE refuses two classes here
@pytest.mark.parametrize("n", [AGREED, PARTING])
def test_mapie_aps_with_the_same_u(data, n):
    """Randomized APS equals MAPIE's with the same u per object."""
    probs, labels, test = split(data, n)
    calibration = dispatch.label_scores(as_rows(probs), labels, pippin.scores.aps(), peers.mapie_uniforms(n))
    threshold = np.sort(calibration)[1800 - 1]
    sizes, members = dispatch.members(
        as_rows(test), pippin.scores.aps(), one_bound(threshold), peers.mapie_uniforms(len(test))
    )
    ours = pippin.PredictionSets(sizes, members, range(probs.shape[1])).mask
    np.testing.assert_array_equal(ours, peers.mapie("aps", probs, labels)(test))


@torchcp_warns
@pytest.mark.parametrize("n", [AGREED, PARTING])
@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        ("ip", "LAC", {}),
        ("margin", "Margin", {}),
        ("aps(randomized=False)", "APS", {"randomized": False}),
        ("raps(randomized=False)", "RAPS", {"randomized": False, "penalty": 0.02, "kreg": 3}),
    ],
)
def test_torchcp(data, n, ours, theirs, options):
    """Sets of deterministic scores equal TorchCP's."""
    probs, labels, test = split(data, n)
    np.testing.assert_array_equal(
        our_sets(probs, labels, test, ours), peers.torchcp(theirs, probs, labels, **options)(test)
    )


@pytest.mark.parametrize(("ours", "theirs"), [("ip", "hinge"), ("margin", "margin")])
def test_crepes(data, ours, theirs):
    """Sets of IP and margin equal those of crepes' p-values."""
    probs, labels, test = split(data, AGREED)
    np.testing.assert_array_equal(our_sets(probs, labels, test, ours), peers.crepes(theirs, probs, labels)(test))


@pytest.mark.parametrize("score", ["pip", "repip", "socop", "pip(beta=2)", "saps(randomized=False)", "topk"])
def test_scores_that_no_peer_has_through_crepes_calibration(data, score):
    """crepes with our class scores gives equal sets."""
    probs, labels, test = split(data, AGREED)
    theirs = peers.crepes_from_scores(pippin.scores.score(probs, labels, score), pippin.scores.score(test, None, score))
    np.testing.assert_array_equal(our_sets(probs, labels, test, score), theirs)


@pytest.mark.parametrize("score", ["ip", "pip", "repip"])
def test_the_threshold_is_the_kth_smallest_where_crepes_differs(data, score):
    """At n = 1999 the threshold is the 1800th smallest score; crepes uses the 1801st."""
    probs, labels, test = split(data, PARTING)
    calibration = pippin.scores.score(probs, labels, score)
    kth, next_one = np.sort(calibration)[1800 - 1 : 1800 + 1]
    assert pippin.calibrate(probs, labels, score, ALPHA).threshold == kth < next_one
    every = pippin.scores.score(test, None, score)
    np.testing.assert_array_equal(our_sets(probs, labels, test, score), every <= kth)
    np.testing.assert_array_equal(peers.crepes_from_scores(calibration, every), every <= next_one)


@pytest.mark.parametrize("score", [*pippin.scores.PAPER, pippin.scores.saps(), pippin.scores.socop()], ids=str)
def test_inputs_are_not_modified(score):
    """No call modifies its input (TorchCP's margin writes −1 into it)."""
    probs, labels, test = split(seedlings(), AGREED)
    before = probs.copy(), labels.copy(), test.copy()
    predictor = pippin.calibrate(probs, labels, score, ALPHA, seed=0)
    predictor.predict(test, seed=0)
    predictor.predict_one(test[0], seed=0)
    for now, then in zip((probs, labels, test), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_deterministic_saps_scores_rank_1_as_it_predicts_it(data):
    """A label is in the set exactly if its score is at most the threshold (TorchCP's SAPS has two rank-1 scores)."""
    probs, labels, test = split(data, AGREED)
    predictor = pippin.calibrate(probs, labels, "saps(randomized=False)", ALPHA)
    for label in range(probs.shape[1]):
        asked = np.full(len(test), label)
        inside = pippin.scores.score(test, asked, predictor.score) <= predictor.threshold
        np.testing.assert_array_equal(predictor.predict(test).contains(asked), inside)


@pytest.mark.parametrize("score", ["aps(randomized=False)", "raps(randomized=False)", "repip"])
def test_a_small_batch_does_not_cap_its_sets(score):
    """The set of a row does not depend on the batch size (puncc limits set sizes to it)."""
    probs, labels, test = split(seedlings(), AGREED)
    predictor = pippin.calibrate(probs, labels, score, 0.01)
    mask = predictor.predict(test).mask
    widest = int(mask.sum(axis=1).argmax())
    assert mask[widest].sum() > 1
    np.testing.assert_array_equal(predictor.predict(test[widest : widest + 1]).mask[0], mask[widest])


def test_the_global_generator_is_not_used():
    """Sets depend on the seed only, not on NumPy's global generator (crepes and MAPIE use or reseed it)."""
    probs, labels, test = split(seedlings(), AGREED)
    masks = []
    for global_seed in (0, 1):
        np.random.seed(global_seed)  # noqa: NPY002 (the state under test)
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        masks.append(pippin.calibrate(probs, labels, "aps", ALPHA, seed=3).predict(test, seed=4).mask)
        np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.testing.assert_array_equal(*masks)


def test_an_exact_tie_with_the_threshold_is_inside():
    """A score equal to the threshold is in the set, unlike in puncc; any larger score is not, unlike in MAPIE."""
    probs = np.tile([0.75, 0.25], (9, 1))
    predictor = pippin.calibrate(probs, np.ones(9, dtype=int), "ip", ALPHA)
    less = 0.25 - 1e-10
    assert predictor.predict([[0.75, 0.25], [1 - less, less]]).sizes.tolist() == [2, 1]


def test_too_few_rows_warn():
    """Full sets come with a warning of the required number of rows (crepes does not warn, MAPIE raises)."""
    probs, labels, test = split(seedlings(), 8)
    with pytest.warns(UserWarning, match="at least 9 are needed"):
        predictor = pippin.calibrate(probs, labels, "pip", ALPHA)
    assert predictor.predict(test).mask.all()
