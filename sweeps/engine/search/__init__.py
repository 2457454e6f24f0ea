"""Hyper-parameter searches: an equal budget for every arm, scored on the near range alone."""
