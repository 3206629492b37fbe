"""People's files in, checked; sets and tables out."""
