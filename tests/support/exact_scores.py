"""Nonconformity scores of one object by their definitions in the papers, in exact fractions.

Without coefficient tables, sorting tricks or floating-point sums.
"""

from fractions import Fraction

import pippin


def ranking(row):
    """Return the classes by decreasing probability; ties by index."""
    return sorted(range(len(row)), key=lambda k: (-float(row[k]), k))  # floats compare exactly


def score_of(score: pippin.Score, row, label: int, u: float) -> Fraction | float:
    """Compute the exact score of one class; infinite where a probability of 0 is inverted."""
    p = [Fraction(float(x)) for x in row]
    order = ranking(row)
    rank = order.index(label) + 1
    value = dict(score.parameters)
    exact = {k: Fraction(v) for k, v in value.items() if isinstance(v, float | int)}
    u = Fraction(u) if score.randomized else Fraction(1)

    def by_rank(r):
        return p[order[r - 1]]

    def penalty(amount):
        return exact[amount] * max(0, rank - value["k_reg"])

    def penalized():
        total = 1 - p[label]
        for r in range(1, rank):
            weight = Fraction(1, r) if value["beta"] == 1 else Fraction(float(r) ** -value["beta"])
            total += by_rank(r) * weight
        return total

    def adaptive():
        return sum((by_rank(r) for r in range(1, rank)), start=Fraction(0)) + u * p[label]

    if score.name == "ip":
        return 1 - p[label]
    if score.name == "margin":
        return max(p[k] for k in range(len(p)) if k != label) - p[label]
    if score.name == "aps":
        return adaptive()
    if score.name == "raps":
        return adaptive() + penalty("lam")
    if score.name == "pip":
        return penalized()
    if score.name == "repip":
        return penalized() + penalty("gamma")
    if score.name == "saps":
        return u * p[label] if rank == 1 else by_rank(1) + exact["lam"] * (rank - 2 + u)
    if score.name == "topk":
        return Fraction(rank)
    if score.name == "socop":
        inverse = 1 / p[label] if p[label] else float("inf")
        if rank == 1:
            return inverse
        mass, tau = Fraction(0), float("inf")
        for m in range(2, len(p) + 1):
            mass += by_rank(m)
            if mass:
                tau = min(tau, (m - 1 + exact["mu"]) / mass)
        return max(inverse, tau)
    if score.name == "linear":
        total = 1 - p[label] + Fraction(value["penalties"][min(rank, len(value["penalties"])) - 1])
        for r in range(1, rank):
            total += by_rank(r) * Fraction(value["weights"][min(r, len(value["weights"])) - 1])
        return total
    raise AssertionError(score)
