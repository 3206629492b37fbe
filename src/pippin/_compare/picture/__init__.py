"""Pictures of comparisons, each on axes of its own: the report puts them together, `.plot()` shows one."""
