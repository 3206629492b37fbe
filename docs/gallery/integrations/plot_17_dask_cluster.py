"""
How do I calibrate on a cluster with Dask?
==========================================

A calibration needs one number per row, the score of its true class. Rows can
therefore stay on the workers of a cluster; only scores are transferred. This
page calibrates 500,000 rows on two local workers and then estimates memory for
larger data.

.. admonition:: The guarantee
   :class: guarantee

   For any partition of the rows, the predictor equals the one that
   ``pippin.calibrate`` returns for all rows at once, with the same guarantee.
"""

# %%
# A local cluster
# ---------------
# For a real cluster, pass its address to ``Client``. The workers generate the
# rows in 20 partitions.

# sphinx_gallery_thumbnail_path = '_static/thumbnails/17.svg'
import dask
import dask.array
import numpy as np
from dask.distributed import Client, LocalCluster

import pippin
import pippin.dask

cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
)
client = Client(cluster)
ROWS, CLASSES = 25_000, 10


@dask.delayed
def part(number):
    """Return probabilities and true classes of one partition."""
    rng = np.random.default_rng(number)
    logits = rng.normal(size=(ROWS, CLASSES)) * rng.choice(
        [1, 3], size=(ROWS, 1), p=[0.3, 0.7]
    )
    probs = np.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < rng.random((ROWS, 1))).sum(axis=1)
    return probs.astype(np.float32), labels.clip(max=CLASSES - 1)


parts = [part(number) for number in range(20)]
probs = dask.array.concatenate(
    [
        dask.array.from_delayed(one[0], (ROWS, CLASSES), np.float32)
        for one in parts
    ]
)
labels = dask.array.concatenate(
    [dask.array.from_delayed(one[1], (ROWS,), np.int64) for one in parts]
)
predictor = pippin.dask.calibrate(probs, labels, "repip", alpha=0.1)
print(predictor.describe())

# %%
# Compare its content with a calibration on all rows at once:

alone = pippin.calibrate(probs.compute(), labels.compute(), "repip", alpha=0.1)
print(predictor.content() == alone.content())

# %%
# ``predict`` and ``evaluate`` run on the workers too:

found = pippin.dask.evaluate(predictor, probs, labels)
print(
    f"coverage {found.coverage:.3f}, size {found.mean_size:.2f}, "
    f"{found.n:,} rows"
)
client.close()
cluster.close()

# %%
# Memory for a billion rows (calculated)
# --------------------------------------
# The calling process receives 8 bytes per row, the scores of the true classes,
# and holds them twice while it sorts them. The probabilities are not
# transferred.

rows, classes = 1_000_000_000, 1000
print(
    f"probabilities, float32:      {rows * classes * 4 / 1e12:10.1f} TB, "
    "on the workers"
)
print(f"scores of the true classes:  {rows * 8 / 1e9:10.1f} GB, transferred")
print(f"memory of the client:        {rows * 16 / 1e9:10.1f} GB")
plan = pippin.plan(alpha=0.1, n=rows)
print(
    f"coverage between {plan.low:.5f} and {plan.high:.5f} "
    "in 95% of calibrations"
)

# %%

import matplotlib.pyplot as plt

many = np.geomspace(1e4, 1e9, 50)
fig, ax = plt.subplots()
ax.loglog(
    many, many * classes * 4, label="probabilities of 1,000 classes", color="C6"
)
ax.loglog(
    many, many * 8, label="scores of the true classes", color="C1", linewidth=3
)
ax.set_yticks([1e6, 1e9, 1e12], ["1 MB", "1 GB", "1 TB"])
ax.set_xticks([1e4, 1e6, 1e9], ["10,000 rows", "a million", "a billion"])
ax.minorticks_off()
ax.set_title("The transferred data do not grow with the number of classes")
ax.legend()
plt.show()

# %%
# What can go wrong
# -----------------
# **Thresholds of partitions are averaged.** The mean of thresholds is not the
# threshold of all rows if partitions differ. Here every partition has the rows
# of one class, as in tables that are written class by class:

data = pippin.load_example()
rows, truth = data.probs[:2500], data.labels[:2500]
thresholds = [
    pippin.calibrate(rows[truth == k], truth[truth == k], "ip").threshold
    for k in range(12)
]
new = pippin.scores.score(data.probs[2500:], data.labels[2500:], "ip")
together = pippin.calibrate(rows, truth, "ip").threshold
print(
    "mean of twelve thresholds: "
    f"coverage {(new <= np.mean(thresholds)).mean():.1%}"
)
print(f"one threshold of all rows: coverage {(new <= together).mean():.1%}")

# %%
# **More rows than necessary.** A billion rows of the wrong distribution give a
# precise threshold for the wrong distribution. A few thousand rows per class,
# sampled at random, are usually enough: see
# :doc:`../basics/plot_02_how_many_examples` and
# :doc:`../changing_data/plot_09_drift`.
#
# Read on
# -------
# - :doc:`/scale`: tables larger than memory, Spark, Ray, lost workers
# - :doc:`/performance`: measured times
# - :func:`pippin.dask.calibrate`, :func:`pippin.dask.predict`,
#   :func:`pippin.scan`,
#   :class:`pippin.distributed.Calibration`
