"""Optimizers, their groups of parameters, and what happens to gradients."""
