"""Ablations, one short script each; `sweeps.engine` runs them."""
