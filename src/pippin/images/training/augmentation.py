"""Views of a batch that show the same class: another crop, mirrored, in another light."""

import math

import torch
from torch.nn import functional

SMALLEST = 0.5  # share of the picture that a crop keeps at least
STRETCH = 4 / 3  # widest and narrowest crop
LIGHT = 0.2  # change of brightness and contrast


def augmented(pixels: torch.Tensor, flips: str, generator: torch.Generator) -> torch.Tensor:
    """One random view of every picture (n, 3, height, width) between 0 and 1.

    Args:
        flips: `horizontal` mirrors left and right, `both` also up and down, as befits pictures from above; or `none`.
        generator: on the CPU, so that every device sees the same views.
    """
    n = len(pixels)
    drawn = torch.rand(8, n, generator=generator)
    area = SMALLEST + (1 - SMALLEST) * drawn[0]
    ratio = torch.exp((2 * drawn[1] - 1) * math.log(STRETCH) / 2)
    width, height = ((area.sqrt() * r).clamp(max=1) for r in (ratio, 1 / ratio))
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0] = width * (_sign(drawn[2]) if flips in ("horizontal", "both") else 1)
    theta[:, 1, 1] = height * (_sign(drawn[3]) if flips == "both" else 1)
    theta[:, 0, 2] = (1 - width) * (2 * drawn[4] - 1)
    theta[:, 1, 2] = (1 - height) * (2 * drawn[5] - 1)
    grid = functional.affine_grid(theta.to(pixels.device), list(pixels.shape), align_corners=False)
    views = functional.grid_sample(pixels, grid, padding_mode="border", align_corners=False)
    brightness, contrast = ((1 + LIGHT * (2 * d - 1)).view(n, 1, 1, 1).to(pixels.device) for d in drawn[6:])
    mean = views.mean(dim=(1, 2, 3), keepdim=True)
    lit: torch.Tensor = (views - mean) * contrast + mean * brightness
    return lit.clamp(0, 1)


def _sign(drawn: torch.Tensor) -> torch.Tensor:
    return torch.where(drawn < 0.5, -1.0, 1.0)
