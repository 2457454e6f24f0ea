"""Why a trained model fails and what its heads look at."""
