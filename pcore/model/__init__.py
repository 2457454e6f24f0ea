"""The papers' Transformer (transformer.py), faster versions of it, and its checkpoints."""
