"""Which score on these data, and how sure is that."""
