"""Losses on raw tensors."""
