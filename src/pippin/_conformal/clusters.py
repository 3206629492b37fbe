"""Cluster-conditional taxonomy: classes with similar scores share their calibration rows (Ding et al. 2023).

Some rows determine the clusters, and the others are used for calibration. Given the clusters, the calibration rows are
exchangeable with new rows, so coverage per cluster is guaranteed.
"""

import numpy as np

from pippin._conformal.mondrian import Categories, CategoryAssignment
from pippin._runtime.arrays import Codes, Flags, Vector
from pippin._theory.level import examples_needed, quantile_rank

# A class is described by the quantiles of its scores at the levels 1 − share for these shares, and 1 − alpha.
SHARES = (0.5, 0.4, 0.3, 0.2, 0.1)
CLASSES_FOR_HALF = 75  # number of classes with which half of the rows of the rarest class are used for clustering
NULL = -1  # code of the null cluster, which contains the classes with too few rows for clustering


def cluster_categories(
    scores: Vector, labels: Codes, n_classes: int, alpha: float, rng: np.random.Generator
) -> tuple[Categories, int, str | None]:
    """Cluster the classes by the scores of some rows, and sort the scores of the other rows by cluster.

    Return the scores of the other rows by cluster, their number, and a warning if no class could be clustered. The
    classes with too few rows for clustering share one category, the null cluster.
    """
    share, n_clusters = plan(np.bincount(labels, minlength=n_classes), alpha)
    cluster = np.full(n_classes, NULL)
    rest = np.ones(len(scores), dtype=bool)
    if n_clusters:
        rest = rng.random(len(scores)) >= share
        cluster = clusters_of(scores[~rest], labels[~rest], n_classes, alpha, n_clusters, rng)
    seen = np.bincount(labels, minlength=n_classes) > 0
    categories = cluster_scores(scores[rest], labels[rest], cluster, seen, examples_needed(alpha))
    return categories, int(rest.sum()), on_null(cluster)


def on_null(cluster: Codes) -> str | None:
    """Return a warning if no class has enough rows to be clustered, else None."""
    if (cluster != NULL).any():
        return None
    return (
        f"Too few calibration examples per class to cluster {len(cluster):,} classes: all of them get the marginal "
        "threshold, whose guarantee is for all classes together; collect more."
    )


def plan(counts: Codes, alpha: float) -> tuple[float, int]:
    """Return the share of rows for clustering, and the number of clusters; (0, 0) if fewer than two are possible.

    Let N be the number of rows of the rarest class, but at least the number that its quantiles need, and K the number
    of classes with at least N rows. Then n = ⌊N·K/(75 + K)⌋ of the rarest class's rows are used for clustering, the
    same share of the rows of every other class, and ⌊n/2⌋ clusters are formed. If this is less than two, N is replaced
    by the next larger number of rows of a class.

    >>> plan(np.array([100] * 25), 0.1), plan(np.array([100] * 25 + [10]), 0.1)
    ((0.25, 12), (0.25, 12))
    """
    for rarest in np.unique(np.maximum(counts, _needed(alpha))).tolist():
        n_classes = int((counts >= rarest).sum())
        n_clustering = rarest * n_classes // (CLASSES_FOR_HALF + n_classes)
        if n_clustering >= 4:
            return n_clustering / rarest, n_clustering // 2
    return 0.0, 0


def cluster_scores(scores: Vector, labels: Codes, cluster: Codes, seen: Flags, needed: int) -> Categories:
    """Sort calibration scores into one category per cluster, and one for the null cluster (rare classes).

    Another category, the last, holds all scores. It is used for classes without rows (`seen` is False), and for the
    null cluster if that has fewer than `needed` scores; otherwise it is left out.

    >>> scores, labels, cluster = np.array([0.3, 0.1, 0.2]), np.array([0, 1, 2]), np.array([0, 0, NULL, NULL])
    >>> categories = cluster_scores(scores, labels, cluster, np.array([True, True, True, False]), 1)
    >>> categories.lookup, categories.counts
    (array([[0, 0, 1, 2]], dtype=int32), array([2, 1, 3]))
    >>> cluster_scores(scores, labels, cluster, np.array([True, True, True, False]), 9).lookup
    array([[0, 0, 1, 1]], dtype=int32)
    """
    counts = np.bincount(labels, minlength=len(cluster))
    return sharing(cluster, counts, seen, needed).categories(scores, labels, None)


def sharing(cluster: Codes, counts: Codes, seen: Flags, needed: int) -> CategoryAssignment:
    """Assign each class to the category of its cluster, of the null cluster, or of all scores, as in `cluster_scores`.

    `counts` holds the number of calibration rows of each class.
    """
    rare = cluster == NULL
    null = int(cluster.max()) + 1
    of_class = np.where(rare, null, cluster)
    lookup = of_class.copy()
    few = counts[rare].sum() < needed
    unknown = rare if few else rare & ~seen
    pooled = None
    if unknown.any():
        pooled = null if few else null + 1
        lookup[unknown] = pooled
    return CategoryAssignment(lookup[None].astype(np.int32), of_class, pooled=pooled)


def clusters_of(
    scores: Vector, labels: Codes, n_classes: int, alpha: float, n_clusters: int, rng: np.random.Generator
) -> Codes:
    """Return the cluster of each class, numbered by increasing mean score; NULL for classes with too few rows.

    A class is described by the quantiles 0.5, 0.6, 0.7, 0.8, 0.9 and 1 − alpha of its scores. Its weight is the square
    root of its number of rows.
    """
    counts, cluster = np.bincount(labels, minlength=n_classes), np.full(n_classes, NULL)
    common = np.flatnonzero(counts >= _needed(alpha))
    if not len(common):
        return cluster
    ranks = [[quantile_rank(n, share) for share in (*SHARES, alpha)] for n in counts[common].tolist()]
    first = np.cumsum(counts) - counts
    points = scores[np.lexsort((scores, labels))][first[common, None] + np.array(ranks) - 1]
    finite = points[np.isfinite(points)]
    points = np.minimum(points, finite.max(initial=0.0))  # replaces infinite scores, those of probabilities of 0
    points /= np.abs(points).max() or 1.0  # scaled to at most 1, so that squared distances do not overflow
    parts, _ = kmeans(points, np.sqrt(counts[common]), min(n_clusters, len(common)), rng)
    present, parts = np.unique(parts, return_inverse=True)
    height = np.array([points[parts == part].mean() for part in range(len(present))])
    cluster[common] = np.argsort(np.argsort(height))[parts]
    return cluster


def kmeans(
    points: Vector, weights: Vector, n_clusters: int, rng: np.random.Generator, starts: int = 10, steps: int = 300
) -> tuple[Codes, float]:
    """Run weighted k-means by Lloyd's algorithm from several k-means++ starts; return the best partition and inertia.

    >>> parts, inertia = kmeans(np.array([[0.0], [0.1], [5.0]]), np.ones(3), 2, np.random.default_rng(0))
    >>> bool(parts[0] == parts[1] != parts[2]), round(inertia, 6)
    (True, 0.005)
    """
    best, least = np.zeros(len(points), dtype=np.int64), np.inf
    for _ in range(starts):
        centers = _spread(points, weights, n_clusters, rng)
        parts = np.full(len(points), -1)
        for _ in range(steps):
            distances = ((points[:, None] - centers) ** 2).sum(axis=2)
            nearest = distances.argmin(axis=1)
            if (nearest == parts).all():
                break
            parts = nearest
            mass = np.bincount(parts, weights, n_clusters)
            sums = np.column_stack([np.bincount(parts, weights * x, n_clusters) for x in points.T])
            centers = np.where(mass[:, None] > 0, sums / np.where(mass > 0, mass, 1)[:, None], centers)
        inertia = float((weights * ((points - centers[parts]) ** 2).sum(axis=1)).sum())
        if inertia < least:
            best, least = parts, inertia
    return best, least


def _spread(points: Vector, weights: Vector, n_clusters: int, rng: np.random.Generator) -> Vector:
    """Choose initial centers by greedy k-means++: each is the best of a few draws weighted by squared distance."""
    chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
    distance = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < n_clusters:
        chance = weights * distance
        if not chance.any():
            chosen.append(chosen[0])
            continue
        tried = rng.choice(len(points), 2 + int(np.log(n_clusters)), p=chance / chance.sum())
        left = np.minimum(distance, ((points - points[tried, None]) ** 2).sum(axis=2))
        best = int((left @ weights).argmin())
        chosen.append(int(tried[best]))
        distance = left[best]
    return points[chosen]


def _needed(alpha: float) -> int:
    """Return the smallest number of rows of a class with which all quantiles that describe it are finite."""
    return max(examples_needed(alpha), examples_needed(min(SHARES)))
