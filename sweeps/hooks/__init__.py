"""Hooks ready for use, examples for own ones: `--hook sweeps.hooks.tensorboard:TensorBoard`."""
