"""What a trial will cost in seconds, from what finished trials took."""
