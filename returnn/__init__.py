"""RETURNN: a toolkit to train and decode sequence models."""

__version__ = "2.0.0.dev0"
