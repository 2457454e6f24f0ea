"""The commands of `python -m sweeps` on a store: list, status, merge, measure, gc, ..."""
