"""The MLflow mirror of launches: a process of its own is told what happens, and shows it."""
