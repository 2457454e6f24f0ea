"""Evaluation: test sets, predictions, counts, free decoding, and FLOPs."""
