"""Mathematics without data: formula of the scores, spelling, exact levels, law of coverage, policies."""
