"""Array types, errors, files, threads, progress and display."""
