"""Small decoder-only Transformers on arithmetic: tasks, position schemes, training, evaluation.

Torch only.
"""
