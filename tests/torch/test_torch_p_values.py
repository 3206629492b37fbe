"""PValueHead: p-values as tensors equal those of the core, for every Mondrian taxonomy."""

import io

import numpy as np
import pytest
import torch

import pippin
import pippin.torch as pt
from pippin._engine.draws import generator_of
from support.rows import KINDS, made_rows
from support.scores import EVERY_SCORE

DATA = pippin.load_example()


def drawn(score, n, seed, smoothed):
    """Return u and v as `p_values` draws them from its seed, or None."""
    rng = generator_of(seed)
    u = torch.from_numpy(rng.random(n)) if score.randomized else None
    return u, torch.from_numpy(rng.random(n)) if smoothed else None


@pytest.mark.parametrize("score", EVERY_SCORE, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore")
def test_p_values_are_the_cores_to_the_last_bit(score, dtype):
    """p-values equal those of the core with tied rows and scores; plain and smoothed, marginal and per class."""
    for n_classes in (2, 12, 90):
        probs = np.concatenate([made_rows(kind, 20, n_classes, 1) for kind in KINDS]).astype(dtype)
        labels = np.random.default_rng(0).integers(0, n_classes, len(probs))
        for per in (None, "class"):
            predictor = pippin.calibrate(probs, labels, score, seed=0, per=per)
            head = pt.PValueHead(predictor, from_probs=True)
            for smoothed in (False, True):
                u, v = drawn(score, len(probs), 3, smoothed)
                wanted = predictor.p_values(probs, seed=3, smoothed=smoothed)
                np.testing.assert_array_equal(head(torch.from_numpy(probs), u=u, v=v).numpy(), wanted)


@pytest.mark.parametrize("per", ["group", "class and group", "cluster", "kind"])
@pytest.mark.filterwarnings("ignore")
def test_every_taxonomy(per):
    groups = np.array(["a", "b", "c"])[np.arange(len(DATA.labels)) % 3] if "group" in per else None
    told = {"groups": groups, "unseen": "marginal"} if groups is not None else {}
    kinds = {name: "few" if k < 4 else "many" for k, name in enumerate(DATA.classes)} if per == "kind" else per
    predictor = pippin.calibrate(DATA.probs, DATA.labels, "repip", per=kinds, classes=DATA.classes, seed=1, **told)
    head = pt.PValueHead(predictor, from_probs=True)
    asked = DATA.probs[:60]
    if groups is None:
        assert head(torch.tensor(asked)).numpy().tobytes() == predictor.p_values(asked).tobytes()
        return
    some = np.where(np.arange(60) % 7 == 0, "never seen", groups[:60])
    found = head(torch.tensor(asked), group=head.group_codes(some))
    np.testing.assert_array_equal(found.numpy(), predictor.p_values(asked, groups=some))
    with pytest.raises(pippin.InputError, match="pass group="):
        head(torch.tensor(asked))


def test_sets_are_the_classes_above_the_level():
    predictor = pippin.calibrate(DATA.probs, DATA.labels, "pip")
    probs = torch.tensor(DATA.probs[:200])
    p = pt.PValueHead(predictor, from_probs=True)(probs)
    for alpha in (0.01, 0.1, 0.3):
        sets = pt.ConformalHead(predictor.at(alpha), from_probs=True)(probs, mask=True)
        assert torch.equal(p > alpha, sets.mask)


def test_many_rows_are_processed_in_blocks(monkeypatch):
    predictor = pippin.calibrate(DATA.probs, DATA.labels, "aps")
    head, probs = pt.PValueHead(predictor, from_probs=True), torch.tensor(DATA.probs[:50])
    u, v = torch.rand(50, dtype=torch.float64), torch.rand(50, dtype=torch.float64)
    whole = head(probs, u=u, v=v)
    monkeypatch.setattr("pippin.torch.ranking.AT_ONCE", 12 * 7)
    assert torch.equal(head(probs, u=u, v=v), whole)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch", "ignore::FutureWarning:torch")
def test_compiled_as_one_graph():
    """Logits with leading axes under torch.compile; the operator passes opcheck."""
    predictor = pippin.calibrate(DATA.probs, DATA.labels, "repip", per="class")
    head = pt.PValueHead(predictor)
    logits = torch.log(torch.tensor(DATA.probs[:24])).reshape(4, 6, 12)
    assert torch.equal(torch.compile(head, fullgraph=True, backend="eager")(logits), head(logits))
    given = (logits.reshape(24, 12), *(bits.view(torch.float64) for bits in (head.table_bits, head.number_bits)))
    none = torch.empty(0, dtype=torch.float64)
    scores = head.value_bits.view(torch.float64), head.keys, head.offsets, head.of
    operation = torch.ops.pippin.p_values.default
    torch.library.opcheck(operation, (*given, none, head.linear, *scores, none, None, True))


def test_state_and_moves_keep_every_bit():
    predictors = [pippin.calibrate(DATA.probs, DATA.labels, score) for score in ("aps", "socop")]
    probs = torch.tensor(DATA.probs[:30])
    head, other = (pt.PValueHead(predictor, from_probs=True) for predictor in predictors)
    before, file = other(probs), io.BytesIO()
    torch.save(other.state_dict(), file)
    file.seek(0)
    head.load_state_dict(torch.load(file))
    assert not head.randomized
    assert torch.equal(head.half()(probs), before)


def test_a_row_with_nan_has_nan_and_no_other():
    head = pt.PValueHead(pippin.calibrate(DATA.probs, DATA.labels, "ip"), from_probs=True)
    probs = torch.tensor(DATA.probs[:3])
    probs[1, 4] = torch.nan
    assert head(probs).isnan().all(dim=1).tolist() == [False, True, False]
    assert not head(probs)[[0, 2]].isnan().any()


def test_u_and_v_are_random_by_default():
    """p-values are uniform for exchangeable rows, and differ between calls."""
    half = len(DATA.probs) // 2
    predictor = pippin.calibrate(DATA.probs[:half], DATA.labels[:half], "aps")
    head, probs = pt.PValueHead(predictor, from_probs=True), torch.tensor(DATA.probs[half:])
    torch.manual_seed(0)
    first, second = (head(probs, smoothed=True) for _ in range(2))
    assert not torch.equal(first, second)
    own = first.gather(1, torch.tensor(DATA.labels[half:])[:, None]).squeeze(1)
    assert abs(float(own.mean()) - 0.5) < 0.03
    assert abs(float((own <= 0.1).double().mean()) - 0.1) < 0.03


@pytest.mark.filterwarnings("ignore")
def test_errors_say_what_to_do(tmp_path):
    predictor = pippin.calibrate(DATA.probs, DATA.labels, "ip")
    predictor.save(tmp_path / "small.json", scores=False)
    weighted = pippin.calibrate(DATA.probs, DATA.labels, "ip", weights=np.ones(len(DATA.labels)))
    for refused, said in (
        (pippin.load(tmp_path / "small.json"), "saved without its calibration scores"),
        (pippin.calibrate(DATA.probs, DATA.labels, "ip", per="rc3p"), "calibrate with per='class'"),
        (weighted, "or call its p_values in Python"),
    ):
        with pytest.raises(pippin.InputError, match=said):
            pt.PValueHead(refused)
    with pytest.raises(pippin.InputError, match="Expected 12 classes"):
        pt.PValueHead(predictor)(torch.zeros(3, 4))
    with pytest.raises(pippin.InputError, match="Expected 3 numbers as v"):
        pt.PValueHead(predictor)(torch.zeros(3, 12), v=torch.tensor([0.5]))
    assert "4,986 calibration examples" in repr(pt.PValueHead(predictor))
