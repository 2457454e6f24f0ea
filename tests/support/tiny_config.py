"""Addition of 1-3 digits with two small layers and 12 steps, as changes to the default trial."""

TINY = {
    "model.num_layers": 2,
    "model.num_heads": 2,
    "model.d_model": 16,
    "model.d_head": 8,
    "model.d_ff": 32,
    "data.max_length": 3,
    "data.num_examples": None,
    "optim.learning_rate": 3e-3,
    "optim.num_steps": 12,
    "optim.batch_size": 16,
    "position.max_position": 20,
    "eval.train_lengths": "1-3",
    "eval.test_lengths": "4,6",
    "eval.num_examples": 32,
    "eval.num_checks": 4,
}
