"""The published claims, the rules that judge them, and our verdicts."""
