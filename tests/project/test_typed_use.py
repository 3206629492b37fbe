"""A user script that mypy checks strictly runs."""

import pytest
from typed_use import main


@pytest.mark.filterwarnings("ignore:.*calibration examples are too few")
def test_a_typed_script_runs(tmp_path):
    assert main(tmp_path).startswith("12 True 10 True True True steep with threshold ")
