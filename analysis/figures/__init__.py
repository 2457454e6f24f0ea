"""Figures of a sweep as functions of its results, and the choice of which to draw."""
