"""Optimizers: how gradients change variables. `registry` knows them by name."""
