"""Predicts the seconds of a trial from the times of finished trials."""
