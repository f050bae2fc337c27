"""Tools for scores of hypotheses."""
