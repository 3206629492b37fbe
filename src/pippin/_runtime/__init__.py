"""Infrastructure without conformal prediction: array types, errors, files, threads, progress, HTML tables."""
