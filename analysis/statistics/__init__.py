"""What runs can say: medians, intervals, tests, comparisons; data frames in, data frames out."""
