"""The MLflow mirror: a separate process that a launch feeds with events."""
