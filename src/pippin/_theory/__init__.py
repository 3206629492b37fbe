"""Mathematics without data: the formula, scores by name, exact levels, the laws of coverage."""
