"""Limits on the number of files whose functions a call of `calibrate` or `predict` runs."""

import sys
from pathlib import Path

import pippin

SOURCE = str(Path(pippin.__file__).parent)


def files_of(function):
    """Return the files of this package whose functions a call runs."""
    seen = set()

    def profile(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            seen.add(frame.f_code.co_filename.removeprefix(SOURCE))

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen


def test_calibrate_and_predict_pass_through_few_files(monkeypatch):
    data = pippin.load_example()
    monkeypatch.setattr("pippin._engine.dispatch._loaded", pippin._engine.dispatch.numpy_engine)

    def calibrated():
        return pippin.calibrate(data.probs[:2000], data.labels[:2000], "repip", classes=data.classes)

    predictor = calibrated()
    predictor.predict(data.probs[2000:])  # imports and caches are filled
    assert len(files_of(calibrated)) <= 16
    assert len(files_of(lambda: predictor.predict(data.probs[2000:]))) <= 10
    text = Path(SOURCE, "_conformal", "predictor.py").read_text()
    assert "\n    def predict(\n" in text
