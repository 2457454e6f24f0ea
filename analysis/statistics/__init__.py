"""Statistics of runs: medians, intervals, tests, comparisons; functions from frames to frames."""
