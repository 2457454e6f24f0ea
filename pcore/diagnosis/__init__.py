"""Why a trained model fails, and what its heads attend to."""

NUM_EXAMPLES = 200  # of each length by which a model is analysed: a share is known to 3.5 points
