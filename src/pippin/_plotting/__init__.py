"""Pictures of sets and predictors, each on axes of its own: the report puts them together, `.plot()` shows one."""
