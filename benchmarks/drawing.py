"""A small drawing of curves on logarithmic axes, as SVG that needs nothing to be shown."""

from collections.abc import Sequence
from math import log10

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 400, 60, 16, 590, 350
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#edae49", "#7b4fa3", "#3b3b3b", "#00a3a3")


def curves(xs: Sequence[float], lines: dict[str, list[float]], x_title: str, y_title: str) -> str:
    """One line for each name, named at its right end."""
    values = [value for line in lines.values() for value in line]
    low, high = 10 ** (log10(min(values)) - 0.05), 10 ** (log10(max(values)) + 0.05)

    def x(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * log10(value / xs[0]) / log10(xs[-1] / xs[0])

    def y(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * log10(value / low) / log10(high / low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{x_title}</text>',
        f'<text transform="translate(16 {(TOP + BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{y_title}</text>',
    ]
    for value in (value for value in (8, 12, 16, 20, 25, 32, 50, 100, 200, 300) if xs[0] <= value <= xs[-1]):
        parts.append(f'<path d="M{x(value):.1f} {TOP}V{BOTTOM}" stroke="#eee"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{BOTTOM + 18}" text-anchor="middle">{value}</text>')
    for value in (step * 10**power for power in range(-3, 3) for step in (1, 2, 5)):
        if low <= value <= high:
            parts.append(f'<path d="M{LEFT} {y(value):.1f}H{RIGHT}" stroke="#eee"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    ends = sorted((y(line[-1]), name) for name, line in lines.items())
    place, places = TOP - 16.0, {}
    for end, name in ends:  # names never stand on one another
        place = places[name] = max(end, place + 15)
    for colour, (name, line) in zip(COLOURS, lines.items(), strict=True):
        points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(xs, line, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{RIGHT + 8}" y="{places[name] + 4:.1f}" fill="{colour}">{name.split("(")[0]}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
