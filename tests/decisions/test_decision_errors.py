"""Errors of decisions and risk control: mismatched utilities, costs and losses."""

import numpy as np
import pandas as pd
import pytest

import pippin
from support.confused_rows import confused_rows

PROBS, LABELS = confused_rows(300, seed=60)
NAMES = ("maize", "wheat", "thistle", "poppy")
TABLE = np.array([[1, -2, 0, 0.5], [-1, 1, 0.5, 0], [0.3, 0.3, 0.3, 0.3]])


def test_evaluate_rejects_another_utility():
    """`evaluate` rejects a utility with its actions in another order."""
    utility = pippin.decisions.Utility(TABLE, actions=("spray", "leave", "ask"))
    decisions = pippin.decisions.calibrate(PROBS, LABELS, utility, 0.2).decide(PROBS)
    other = pippin.decisions.Utility(TABLE[[1, 0, 2]], actions=("leave", "spray", "ask"))
    with pytest.raises(pippin.InputError, match="Expected a utility of the actions"):
        pippin.decisions.evaluate(decisions, LABELS, other)
    with pytest.raises(pippin.InputError, match="Expected n_calibration to be a number of rows, got -5"):
        pippin.decisions.evaluate(decisions, LABELS, utility, alpha=0.2, n_calibration=-5)


def test_costs_in_a_series_are_matched_by_index():
    """Costs in a pandas series are matched by class name, in any order."""
    costs = pd.Series({name: float(k + 1) for k, name in enumerate(NAMES)})
    found = [pippin.decisions.control_risk(PROBS, LABELS, one, 0.5, classes=NAMES) for one in (costs, costs[::-1])]
    assert found[0].costs.tolist() == found[1].costs.tolist() == [1, 2, 3, 4]
    assert found[0].threshold == found[1].threshold


def test_unavoidable_losses_raise_errors():
    """If the loss of the full set exceeds the level, no threshold controls the risk, which is an error."""
    with pytest.raises(pippin.InputError, match="The full set may lose 1, more than level"):
        pippin.decisions.control_risk(PROBS, LABELS, lambda members, label: float(label == 0), 0.1)
    with pytest.raises(pippin.InputError, match="Expected a loss from 0 to the bound 1, got None"):
        pippin.decisions.control_risk(PROBS, LABELS, lambda members, label: None, 0.1)


def test_at_warns_of_infinite_thresholds():
    """`at` warns if the threshold becomes infinite."""
    predictor = pippin.decisions.control_risk(PROBS, LABELS, 1.0, 0.1, score="ip")
    with pytest.warns(UserWarning, match="are too few for an expected loss of 1e-06"):
        assert predictor.at(1e-6).threshold == np.inf


def test_errors_of_undecodable_files_name_the_file(tmp_path):
    """A file that cannot be decoded raises an error that names the file."""
    path = tmp_path / "utility.csv"
    path.write_bytes(b"action,caf\xe9,b\nx,1,2\n")
    with pytest.raises(pippin.InputError, match="is no CSV in UTF-8"):
        pippin.decisions.Utility.read(path)


def test_two_spellings_of_one_class_raise_an_error():
    """The classes 1 and "1" in one utility raise an error, since both spell the same class."""
    with pytest.raises(pippin.InputError, match="got two entries that are spelled '1'"):
        pippin.decisions.control_risk(PROBS, LABELS, {0: 1, 1: 1, "1": 2, 2: 1, 3: 1}, 0.5)


@pytest.mark.parametrize(
    "betas", [[[0.0, 5.0, 0.0, 0.0]], [[1.0, 1.0, 1.0, 1.0]]], ids=["two in a cell", "too few rows"]
)
def test_files_without_scores_are_validated(betas, tmp_path):
    """In files without scores, each category has one β, which must be infinite with too few rows."""
    from pippin._conformal.serialization import write_file

    utility = pippin.decisions.Utility(TABLE, actions=("spray", "leave", "ask"))
    content = pippin.decisions.calibrate(PROBS, LABELS, utility, 0.05).content(scores=False)
    few = {} if betas[0][1] == 5 else {"n_calibration": 3, "cell_counts": [3]}
    write_file(tmp_path / "d.json", {**content, "betas": betas, **few})
    with pytest.raises(pippin.InputError, match="its betas makes no sense"):
        pippin.load(tmp_path / "d.json")
