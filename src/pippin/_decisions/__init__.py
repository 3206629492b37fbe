"""From probabilities or sets to actions: utilities, the worst case over a set, decisions with a guarantee."""
