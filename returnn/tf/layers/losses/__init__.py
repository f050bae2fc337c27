"""Losses, by theme, and layers whose output is a loss."""
