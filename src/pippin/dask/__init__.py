"""Calibration, prediction and evaluation on a Dask cluster, one task per partition; needs the extra `dask`."""

from pippin._runtime.errors import need

need("pippin.dask", "dask", "dask", "distributed")

from pippin.dask.api import calibrate, evaluate, predict, score  # noqa: E402 - after the check above

__all__ = ["calibrate", "evaluate", "predict", "score"]
