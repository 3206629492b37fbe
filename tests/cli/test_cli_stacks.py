"""Stacks of several models on the command line: calibrate --also and predict --also."""

import numpy as np
import polars
import pytest

import pippin
from support.confused_rows import confused_rows


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Write the probabilities of two models, of rows to calibrate and of new rows; return the arrays."""
    monkeypatch.chdir(tmp_path)
    probs, labels = confused_rows(900)
    rng = np.random.default_rng(4)
    other = probs ** rng.uniform(0.5, 1.5, (900, 1)) * rng.uniform(0.5, 1, probs.shape)
    other /= other.sum(axis=1, keepdims=True)
    names = np.array([f"c{k}" for k in range(probs.shape[1])])
    for name, part in (("known", slice(600)), ("new", slice(600, None))):
        np.savez(f"{name}.npz", probs=probs[part], labels=names[labels[part]], classes=names)
        # The second file has logits, and its columns in another order.
        np.savez(f"{name}2.npz", logits=np.log(other[part])[:, ::-1], labels=names[labels[part]], classes=names[::-1])
    return probs, other, labels, tuple(names.tolist())


def test_stacks_equal_those_of_python(models, call):
    first, second, labels, names = models
    code, out, err = call("calibrate known.npz --also known2.npz --score socop --sharpen split --out p.json")
    assert (code, err) == (0, "")
    assert "2 models" in out
    expected = pippin.calibrate([first[:600], second[:600]], labels[:600], "socop", 0.1, sharpen="split", classes=names)
    predictor = pippin.load("p.json")
    np.testing.assert_allclose(predictor.calibration_scores, expected.calibration_scores, rtol=1e-4)
    np.testing.assert_allclose(predictor.sharpeners[0].pool.weights, expected.sharpeners[0].pool.weights, rtol=1e-3)
    assert [file for file in predictor.provenance.data if "known2.npz" in file]
    assert call("predict p.json new.npz --also new2.npz --out sets.parquet --p-values p.parquet")[0] == 0
    sets = predictor.predict([first[600:], second[600:]])
    assert polars.read_parquet("sets.parquet")["size"].to_list() == sets.sizes.tolist()
    p_values = polars.read_parquet("p.parquet").select(f"p({name})" for name in names).to_numpy()
    np.testing.assert_allclose(p_values, predictor.p_values([first[600:], second[600:]]), atol=1e-12)


def test_files_of_other_rows_are_rejected(models, call):
    first, _, labels, names = models
    classes = np.array(names)
    shuffled = np.roll(np.arange(600), 1)
    arrays = {"probs": first[:600], "labels": classes[labels[:600]], "classes": classes}
    np.savez("a.npz", **arrays, ids=np.arange(600), files=np.arange(600).astype(str))
    np.savez("labels.npz", **{**arrays, "labels": classes[labels[:600]][shuffled]})
    np.savez("ids.npz", **arrays, ids=shuffled)
    np.savez("files.npz", **arrays, files=shuffled.astype(str))
    np.savez("fewer.npz", probs=first[:500], classes=classes)
    for name, words in (
        ("labels", "Expected the rows of a.npz in the same order in labels.npz, got other labels"),
        ("ids", "got other id"),
        ("files", "got other files"),
        ("fewer", "Expected the same objects from every model, got 600 rows from model 0 and 500 rows from model 1"),
    ):
        code, _, err = call(f"calibrate a.npz --also {name}.npz --sharpen split --out p.json")
        assert code == 2, name
        assert words.split(" rows from model 1")[0] in err, name


def test_missing_and_superfluous_models_are_reported(models, call):
    code, _, err = call("calibrate known.npz --also known2.npz --out p.json")
    assert code == 2
    assert "Expected --sharpen with --also, got none" in err
    assert call("calibrate known.npz --also known2.npz --sharpen split --out stack.json")[0] == 0
    assert call("calibrate known.npz --out one.json")[0] == 0
    code, _, err = call("predict stack.json new.npz --out s.csv")
    assert code == 2
    assert "name a file of each further model by --also" in err
    code, _, err = call("predict one.json new.npz --also new2.npz --out s.csv")
    assert code == 2
    assert "leave --also out" in err
    code, _, err = call("predict stack.json new.npz --also new2.npz --also new2.npz --out s.csv")
    assert code == 2
    assert "Expected the probabilities of 2 models for a stack, got 3 matrices" in err
