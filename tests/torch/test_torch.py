"""pippin.torch: sets as tensors equal those of the core, in every precision, compiled or not."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import pippin
import pippin.torch as pt
from pippin._engine import dispatch
from pippin._validation.rows import as_rows, softmax
from support.engines import sets_of_core
from support.one_threshold import one_threshold
from support.rows import KINDS, drawn_labels, made_rows
from support.scores import EVERY_SCORE

ROOT = Path(__file__).parents[2]


def assert_same(sets, wanted):
    for found, value in zip(sets, wanted, strict=True):
        np.testing.assert_array_equal(found.numpy(), value)


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sets_are_the_cores_to_the_last_bit(score, dtype):
    """Sizes, order of members and mask of rows with ties and zeros, for few and many classes."""
    rng = np.random.default_rng(0)
    for n_classes in (2, 3, 12, 200):
        probs = np.concatenate([made_rows(kind, 30, n_classes, 1) for kind in KINDS]).astype(dtype)
        given = probs.copy()
        labels = drawn_labels(probs, rng)
        predictor = pippin.calibrate(probs, labels, score, 0.1, seed=0)
        for alpha in (0.1, 0.5, 1 / 150):
            at = predictor.at(alpha)
            u = rng.random(len(probs))
            sets = pt.ConformalHead(at, from_probs=True, max_size=n_classes)(
                torch.from_numpy(probs), u=torch.tensor(u), mask=True
            )
            assert_same(sets, sets_of_core(at, probs, u))
        np.testing.assert_array_equal(probs, given)


@pytest.mark.parametrize("score", pippin.scores.PAPER, ids=str)
def test_a_threshold_at_a_score_is_met_exactly(score):
    """A label is in the set if the threshold equals its score, and not if it is just below."""
    probs = made_rows("spread", 60, 90, 2)
    u = np.random.default_rng(5).random(60)
    labels = np.argsort(-probs, axis=1)[np.arange(60), np.arange(60) % 7]
    scores = dispatch.label_scores(as_rows(probs), labels, score, u)
    for i in range(60):
        for threshold, wanted in ((scores[i], True), (np.nextafter(scores[i], -9), False)):
            predictor = one_threshold(score, 0.1, float(threshold), 60, range(90))
            head = pt.ConformalHead(predictor, from_probs=True)
            sets = head(torch.from_numpy(probs[i]), u=torch.tensor(u[i]), mask=True)
            assert bool(sets.mask[labels[i]]) is wanted


@pytest.mark.parametrize("score", pippin.scores.PAPER, ids=str)
def test_real_data(score):
    """After calibration on half of real data, sets of the other half equal those of the core."""
    example, images = pippin.load_example(), np.load(ROOT / "tests" / "data" / "cifar10_vgg16.npz")
    for probs, labels in ((example.probs, example.labels), (images["probs"], images["labels"])):
        predictor = pt.calibrate(torch.tensor(probs[::2]), torch.tensor(labels[::2]), score, seed=0, from_probs=True)
        assert predictor.threshold == pippin.calibrate(probs[::2], labels[::2], score, seed=0).threshold
        rest, u = probs[1::2].copy(), np.random.default_rng(1).random(len(probs[1::2]))
        head = pt.ConformalHead(predictor, from_probs=True)
        assert_same(head(torch.from_numpy(rest), u=torch.tensor(u), mask=True), sets_of_core(predictor, rest, u))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_of_every_precision(dtype):
    """Softmax is computed in float32, for float64 in float64; thresholds and sets equal those of the core."""
    torch.manual_seed(0)
    logits = (3 * torch.randn(400, 120)).to(dtype)
    labels = torch.distributions.Categorical(logits=logits.double()).sample()
    probs = pt.probabilities(logits)
    assert probs.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    np.testing.assert_allclose(probs.numpy(), softmax(logits.double().numpy()), rtol=1e-5)
    for score in EVERY_SCORE:
        predictor = pt.calibrate(logits, labels, score, 0.2, seed=1)
        assert predictor.threshold == pippin.calibrate(probs.numpy(), labels.numpy(), score, 0.2, seed=1).threshold
        u = np.random.default_rng(2).random(400)
        sizes, listed, mask = sets_of_core(predictor, probs.numpy(), u)
        assert_same(pt.ConformalHead(predictor)(logits, torch.tensor(u), mask=True), (sizes, listed[:, :64], mask))
        assert score.randomized or mask[np.arange(400), labels].mean() >= 0.8


def test_probabilities_of_bfloat16():
    """Rows of bfloat16 probabilities, which may sum to 1 within 0.01 only, are accepted as they are."""
    data = pippin.load_example()
    logits, labels = torch.tensor(np.log(data.probs.astype(np.float64) + 1e-6)), torch.tensor(data.labels)
    probs = torch.softmax(logits, dim=1).to(torch.bfloat16)
    assert 1e-3 < (probs.double().sum(dim=1) - 1).abs().max() < 2**-7
    found = pt.calibrate(probs[::2], labels[::2], "repip", from_probs=True)
    wanted = pippin.calibrate(probs[::2], data.labels[::2], "repip")
    assert found.threshold == wanted.threshold
    sets = pt.ConformalHead(found, from_probs=True)(probs[1::2], mask=True)
    assert np.array_equal(sets.mask.numpy(), wanted.predict(probs[1::2]).mask)


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("per", [None, "class", "group", "class and group", "cluster", "rc3p", "kind"])
@pytest.mark.filterwarnings("ignore")
def test_thresholds_of_every_kind(per, scores):
    """Thresholds equal those of the core, with and without stored calibration scores."""
    data = pippin.load_example()
    options = {"per": {k: "ab"[k % 2] for k in range(12)} if per == "kind" else per, "seed": 3}
    if per is not None and "group" in per:
        options |= {"groups": np.arange(len(data.labels)) % 3, "unseen": "marginal"}
    wanted = pippin.calibrate(data.probs, data.labels, "aps", **options)
    probs, labels = torch.tensor(data.probs), torch.tensor(data.labels)
    found = pt.calibrate(probs, labels, "aps", from_probs=True, scores=scores, **options)
    assert repr(found) == repr(wanted)
    np.testing.assert_array_equal(found.thresholds, wanted.thresholds)
    kept, known = found.calibration_scores, wanted.calibration_scores
    assert np.array_equal(kept, known) if scores else kept is None


@pytest.mark.parametrize("per", [None, "class"])
def test_confidence_over_calibration_sets(per):
    """The threshold equals that of the core and exceeds the one without confidence."""
    data = pippin.load_example()
    options = {"per": per, "confidence": 0.95}
    found = pt.calibrate(torch.tensor(data.probs), torch.tensor(data.labels), "pip", from_probs=True, **options)
    wanted = pippin.calibrate(data.probs, data.labels, "pip", **options)
    assert found.confidence == 0.95
    np.testing.assert_array_equal(found.thresholds, wanted.thresholds)
    assert (found.thresholds > pippin.calibrate(data.probs, data.labels, "pip", per=per).thresholds).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch", "ignore::FutureWarning:torch")
@pytest.mark.parametrize("score", ["repip", "raps", "socop"])
def test_compiled_as_one_graph(score):
    """torch.compile(fullgraph=True) gives the same sets, with and without the mask."""
    torch.manual_seed(0)
    probs = torch.softmax(4 * torch.randn(50, 100, dtype=torch.float64), dim=1)
    labels = drawn_labels(probs.numpy(), np.random.default_rng(0))
    predictor = pippin.calibrate(probs.numpy(), labels, score, 0.3, seed=0)
    head = pt.ConformalHead(predictor, from_probs=True)
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    u = torch.rand(50, dtype=torch.float64)
    for mask in (False, True):
        for found, wanted in zip(compiled(probs, u, mask), head(probs, u, mask), strict=True):
            assert (found is None and wanted is None) or torch.equal(found, wanted)


def test_exported_program():
    """torch.export keeps the sets."""
    data = pippin.load_example()
    head = pt.ConformalHead(pippin.calibrate(data.probs, data.labels, "repip"), from_probs=True)
    probs = torch.tensor(data.probs[:20])
    assert_same(torch.export.export(head, (probs,)).module()(probs)[:2], head(probs)[:2])


def test_the_operation_keeps_torchs_contract():
    """The custom operator passes opcheck: its fake implementation has the right shapes, and inputs are not changed."""
    head = pt.ConformalHead(one_threshold(pippin.scores.repip(), 0.1, 1.2, 9, range(90)), from_probs=True)
    probs = torch.softmax(torch.randn(4, 90), dim=1)
    bits = (head.table_bits, head.number_bits, torch.zeros(4, dtype=torch.int64))
    score = (*(part.view(torch.float64) for part in bits), head.linear)
    for mask in (False, True):
        given = (probs, *score, head.limit_bits.view(torch.float64), None, None, False, 64, mask)
        torch.library.opcheck(torch.ops.pippin.prediction_sets.default, given)


def test_state_and_moves_keep_every_bit():
    """half(), to() and state_dict carry coefficients and threshold; a loaded state brings its own score."""
    data = pippin.load_example()
    repip, raps = (pippin.calibrate(data.probs, data.labels, name, seed=0) for name in ("repip(gamma=0.1)", "raps"))
    network = torch.nn.Sequential(torch.nn.Linear(12, 12), pt.ConformalHead(repip))
    network.half()
    assert network[1].threshold == repip.threshold
    state = network.state_dict()
    assert set(state) == {"0.weight", "0.bias", "1.table_bits", "1.number_bits", "1.limit_bits"}
    other = torch.nn.Sequential(torch.nn.Linear(12, 12), pt.ConformalHead(raps)).half()
    assert other[1].randomized
    other.load_state_dict(state)
    assert other[1].threshold == repip.threshold
    assert not other[1].randomized
    x = torch.randn(7, 12).half()
    assert torch.equal(network(x).classes, other(x).classes)
    assert "threshold=" in repr(network)


def test_leading_axes_and_length_of_the_list():
    """Any leading axes; max_size shortens the list only."""
    predictor = one_threshold(pippin.scores.topk(), 0.1, 5.0, 9, range(100))
    sets = pt.ConformalHead(predictor, max_size=3)(torch.randn(2, 4, 100), mask=True)
    assert sets.sizes.shape == (2, 4)
    assert sets.classes.shape == (2, 4, 3)
    assert (sets.sizes == 5).all()
    assert (sets.mask.sum(-1) == 5).all()
    assert pt.ConformalHead(predictor)(torch.randn(0, 100)).classes.shape == (0, 64)


def test_rows_with_nan_have_empty_sets():
    """Rows with NaN have empty sets, even if every other set is full."""
    head = pt.ConformalHead(one_threshold(pippin.scores.pip(), 0.1, float("inf"), 9, range(70)))
    logits = torch.randn(2, 70)
    logits[0, 3] = torch.nan
    assert head(logits).sizes.tolist() == [0, 70]


@pytest.mark.parametrize("per", [None, "class"])
@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
def test_probabilities_with_nan_have_empty_sets(score, per):
    """Of probabilities, as of logits, a row with NaN in any place has size 0 and an empty mask; others keep theirs."""
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(4), 100), rng.integers(0, 4, 100)
    head = pt.ConformalHead(pippin.calibrate(probs, labels, score, 0.2, per=per, seed=0), from_probs=True)
    rows = torch.tensor([[0.9, 0.1, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0, 0.5, 0], [0.1, 0.2, 0.3, 0.4], [0.25] * 4])
    wrong = rows.clone()
    wrong[torch.arange(4), torch.arange(4)] = torch.nan
    u = torch.full((5,), 0.5, dtype=torch.float64) if head.randomized else None
    found, expected = head(wrong, u=u, mask=True), head(rows, u=u, mask=True)
    assert found.sizes[:4].tolist() == found.mask.sum(dim=1)[:4].tolist() == [0] * 4
    assert torch.equal(found.mask[4], expected.mask[4])


def test_u_is_one_number_for_each_object():
    """Too few random numbers u are an error, since a kernel would read beyond them."""
    data = pippin.load_example()
    head = pt.ConformalHead(pippin.calibrate(data.probs, data.labels, "aps"), from_probs=True)
    with pytest.raises(pippin.InputError, match=r"Expected 5 numbers as u, one per object, got shape \(1,\)"):
        head(torch.tensor(data.probs[:5]), u=torch.tensor([0.5]))


def test_u_is_random_by_default():
    """Random numbers come from the generator of torch."""
    data = pippin.load_example()
    head = pt.ConformalHead(pippin.calibrate(data.probs, data.labels, "aps", seed=0), from_probs=True)
    probs = torch.tensor(data.probs)
    drawn = [(torch.manual_seed(seed), head(probs).sizes)[1] for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_calibrate_takes_a_model_and_a_loader():
    """The model runs in eval mode without gradients, and training modes are restored."""
    torch.manual_seed(0)
    x, y = torch.randn(300, 5), torch.randint(4, (300,))
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Dropout(0.9))
    model[1].eval()
    loader = [(x[i : i + 128], y[i : i + 128]) for i in range(0, 300, 128)]
    found = pt.calibrate(model, loader, "ip", classes=list("abcd"))
    assert found.classes == tuple("abcd")
    assert [part.training for part in model.modules()] == [True, True, False]
    assert found.threshold == pt.calibrate(model[0](x), y, "ip").threshold
    assert pt.calibrate(lambda rows: model[0](rows), loader, "ip").threshold == found.threshold


def test_errors_say_what_to_do():
    """Messages name what was expected, what was received, and a remedy."""
    predictor = one_threshold(pippin.scores.ip(), 0.1, 0.5, 9, range(4))
    with pytest.raises(ValueError, match=r"Expected 4 classes in the last axis, got shape \(2, 3\)"):
        pt.ConformalHead(predictor)(torch.randn(2, 3))
    with pytest.raises(ValueError, match="max_size from 1 to 4"):
        pt.ConformalHead(predictor, max_size=5)
    with pytest.raises(ValueError, match="a model or a tensor of logits, got list"):
        pt.calibrate([[0.1]], [0])
    with pytest.raises(ValueError, match=r"batches of \(inputs, labels\), got Tensor"):
        pt.calibrate(torch.nn.Identity(), torch.randn(3, 4))
    with pytest.raises(ValueError, match="empty loader"):
        pt.calibrate(torch.nn.Identity(), [])


def test_without_torch_the_error_names_the_command():
    """The message is one sentence with the command to install torch."""
    code = "import sys; sys.modules['torch'] = None; import pippin.torch"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "pippin-conformal[torch]"' in run.stderr.strip().splitlines()[-1]
