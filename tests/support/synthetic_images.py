"""Small synthetic images of several classes: stripes, blobs and rings in noise."""

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("blob", "columns", "ring", "rows")


def draw(name: str, rng: np.random.Generator, size: int, noise: float) -> np.ndarray:
    """Draw one image (size, size, 3) of a class."""
    y, x = np.mgrid[:size, :size] / size
    shift, (cx, cy) = rng.uniform(0, 2 * np.pi), rng.uniform(0.35, 0.65, 2)
    radius = np.hypot(x - cx, y - cy)
    shape = {
        "blob": radius < 0.25,
        "ring": (radius > 0.2) & (radius < 0.32),
        "columns": np.sin(6 * np.pi * x + shift) > 0,
        "rows": np.sin(6 * np.pi * y + shift) > 0,
    }[name]
    picture = 90 + 80 * shape[..., None] * rng.uniform(0.6, 1, 3) + rng.normal(0, noise, (size, size, 3))
    return picture.clip(0, 255).astype(np.uint8)


def make_images(folder: Path, count: int, size: int = 32, noise: float = 30, photos: int = 0, seed: int = 0) -> Path:
    """Write `count` images of all classes; with `photos`, named as windows of that many photographs."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        name = CLASSES[i % len(CLASSES)]
        row, photo = divmod(i // len(CLASSES), photos or 1)
        stem = f"img_{photo:05d}_{row}_{i % len(CLASSES)}" if photos else f"picture-{i:04d}"
        path = folder / name / f"{stem}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw(name, rng, size, noise)).save(path)
    return folder
