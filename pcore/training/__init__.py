"""Training: the loop, its data, and many small trials as one batched model."""
