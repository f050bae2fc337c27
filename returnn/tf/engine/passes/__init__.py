"""Passes of a session over the batches of a data set, step by step."""
