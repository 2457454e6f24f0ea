"""What `python -m sweeps` can do with a store: list, status, merge, diagnose, collect garbage."""
