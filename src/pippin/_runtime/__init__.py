"""General infrastructure: array types, errors, files, threads, progress bars, HTML tables."""
