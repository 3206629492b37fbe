"""
How do I calibrate on a cluster with Dask?
==========================================

A calibration needs one number per row, the score of its true class, and of those one
order statistic. So the rows may be on many machines, and only their scores travel.

.. admonition:: The guarantee
   :class: guarantee

   However the rows are divided, the predictor is the one that ``pippin.calibrate``
   makes of all rows at once, to the last bit, with the same guarantee.
"""

# %%
# A small cluster
# ---------------
# Two workers here; a large cluster is another address. The rows are made on the
# workers, in 20 parts that the client never sees.

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
    """Probabilities and true classes of one part: most objects are easy."""
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
    [dask.array.from_delayed(one[0], (ROWS, CLASSES), np.float32) for one in parts]
)
labels = dask.array.concatenate(
    [dask.array.from_delayed(one[1], (ROWS,), np.int64) for one in parts]
)
predictor = pippin.dask.calibrate(probs, labels, "repip", alpha=0.1)
print(predictor.describe())

# %%
# Is it the predictor of all rows at once? Bring them together, once, and compare
# everything that would be saved:

alone = pippin.calibrate(probs.compute(), labels.compute(), "repip", alpha=0.1)
print(predictor.content() == alone.content())

# %%
# ``predict`` and ``evaluate`` run where the rows are, too:

found = pippin.dask.evaluate(predictor, probs, labels)
print(
    f"{found.coverage:.3f} covered, {found.mean_size:.2f} classes per set, over "
    f"{found.n:,} rows"
)
client.close()
cluster.close()

# %%
# The arithmetic of a billion
# ---------------------------
# The probabilities of a thousand classes stay where they are. What comes to the
# process that calls ``calibrate`` are the scores of the true classes, 8 bytes a row. It
# holds them twice while it sorts them into their cells.

rows, classes = 1_000_000_000, 1000
print(
    f"probabilities, float32:      {rows * classes * 4 / 1e12:10.1f} TB, stay "
    "where they are, read once"
)
print(f"scores of the true classes:  {rows * 8 / 1e9:10.1f} GB, come to the client")
print(f"memory of the client:        {rows * 16 / 1e9:10.1f} GB")
plan = pippin.plan(alpha=0.1, n=rows)
print(
    f"coverage then lies between {plan.low:.5f} and {plan.high:.5f} in 95% of "
    "calibrations"
)

# %%

import matplotlib.pyplot as plt

many = np.geomspace(1e4, 1e9, 50)
fig, ax = plt.subplots()
ax.loglog(many, many * classes * 4, label="probabilities of 1,000 classes", color="C6")
ax.loglog(many, many * 8, label="scores, to the client", color="C1", linewidth=3)
ax.set_yticks([1e6, 1e9, 1e12], ["1 MB", "1 GB", "1 TB"])
ax.set_xticks([1e4, 1e6, 1e9], ["10,000 rows", "a million", "a billion"])
ax.minorticks_off()
ax.set_title("What has to travel does not grow with the classes")
ax.legend()
plt.show()

# %%
# What can go wrong
# -----------------
# **Averaging thresholds.** It is tempting to calibrate every part by itself and take
# the mean. Parts are seldom alike. Here the embedded example lies in twelve parts, one
# per species, as tables that were written by class do:

data = pippin.load_example()
rows, truth = data.probs[:2500], data.labels[:2500]
thresholds = [
    pippin.calibrate(rows[truth == k], truth[truth == k], "ip").threshold
    for k in range(12)
]
new = pippin.scores.score(data.probs[2500:], data.labels[2500:], "ip")
together = pippin.calibrate(rows, truth, "ip").threshold
print(f"mean of twelve thresholds: {(new <= np.mean(thresholds)).mean():.1%} covered")
print(f"one threshold of all rows: {(new <= together).mean():.1%} covered")

# %%
# **More rows than the guarantee can use.** A billion rows of the wrong kind calibrate
# very precisely for the wrong kind. Beyond a few thousand rows per class, more of them
# buy nothing that drift will not take away, and a random sample does as well: see
# :doc:`../basics/plot_02_how_many_examples` and :doc:`../changing_data/plot_09_drift`.
#
# Read on
# -------
# - :doc:`/scale`: tables larger than memory, Spark, Ray, lost workers
# - :doc:`/performance`: times and ratios
# - :func:`pippin.dask.calibrate`, :func:`pippin.dask.predict`, :func:`pippin.scan`,
#   :class:`pippin.distributed.Calibration`
