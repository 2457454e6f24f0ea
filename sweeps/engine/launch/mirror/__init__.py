"""MLflow as a mirror of a store: what it shows, and the process that keeps it up to date."""
