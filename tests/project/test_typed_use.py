"""A user's script that mypy has checked strictly runs, too."""

from typed_use import main


def test_a_typed_script_runs(tmp_path):
    told = main(tmp_path)
    assert told.startswith("12 True 10 True steep with threshold ")
