"""One launch of sweeps: take trials, run them inline or on Ray, show progress, mirror to MLflow."""
