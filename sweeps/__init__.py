"""Ablations, one short script each; the machinery that runs them is `sweeps.engine`."""
