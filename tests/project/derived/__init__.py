"""Sentences of README and docs, each made from the published rows or the settings of the sweeps."""
