"""What a model gets right: test sets, predictions, counts, free decoding, and what it costs in
FLOPs.
"""
