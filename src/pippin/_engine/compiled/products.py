"""Products of matrices that give a row the same bits whatever rows stand around it: compiled."""

from pippin._engine.compiled.build import compiled
from pippin._runtime.arrays import Floats


@compiled
def add_product(out: Floats, left: Floats, right: Floats) -> None:
    """Adds left · right to `out`, term after term in the order of the inner index."""
    inner, width = right.shape
    fours = inner - inner % 4
    for i in range(left.shape[0]):
        for j in range(0, fours, 4):  # four terms while a sum is at hand
            a, b, c, d = left[i, j], left[i, j + 1], left[i, j + 2], left[i, j + 3]
            for k in range(width):
                total = out[i, k]
                total += a * right[j, k]
                total += b * right[j + 1, k]
                total += c * right[j + 2, k]
                total += d * right[j + 3, k]
                out[i, k] = total
        for j in range(fours, inner):
            a = left[i, j]
            for k in range(width):
                out[i, k] += a * right[j, k]


@compiled
def add_logits(u: Floats, z: Floats, both: Floats, a: Floats) -> None:
    """Adds a₁·z + a₂·l of each member to `u`, (n, members, K), and takes away each row's largest logit."""
    n, members, width = u.shape
    for i in range(n):
        for m in range(members):
            first, second = a[m, 0], a[m, 1]
            for k in range(width):
                u[i, m, k] = (u[i, m, k] + first * z[i, k]) + second * both[i, k]
            top = u[i, m, 0]
            for k in range(width):
                top = max(top, u[i, m, k])
            for k in range(width):
                u[i, m, k] -= top


@compiled
def _lane_sum(row: Floats) -> float:
    """The sum of a row, in four lanes."""
    width = len(row)
    fours = width - width % 4
    a = b = c = d = row[0] - row[0]  # 0, of their type
    for k in range(0, fours, 4):
        a += row[k]
        b += row[k + 1]
        c += row[k + 2]
        d += row[k + 3]
    if fours < width:
        a += row[fours]
    if fours + 1 < width:
        b += row[fours + 1]
    if fours + 2 < width:
        c += row[fours + 2]
    total: float = (a + b) + (c + d)
    return total


@compiled
def centre(values: Floats) -> None:
    """Takes its mean from every row of `values`, (parts, n, K)."""
    parts, n, width = values.shape
    for part in range(parts):
        for i in range(n):
            mean = _lane_sum(values[part, i]) / values.dtype.type(width)
            for k in range(width):
                values[part, i, k] -= mean


@compiled
def add_mixed(out: Floats, powers: Floats, weights: Floats) -> None:
    """Adds Σ_m w_m·powers_m/Σ_k powers_mk to `out`, (n, K); sums run in four lanes."""
    n, members, width = powers.shape
    for i in range(n):
        for m in range(members):
            factor = weights[m] / _lane_sum(powers[i, m])
            for k in range(width):
                out[i, k] += factor * powers[i, m, k]
