"""Rows on a Dask cluster: the same predictors, sets and measures, one task per partition; needs the extra `dask`."""

from pippin._runtime.extras import need

need("pippin.dask", "dask", "dask", "distributed")

from pippin.dask.calling import calibrate, evaluate, predict, score  # noqa: E402 - after the check above

__all__ = ["calibrate", "evaluate", "predict", "score"]
