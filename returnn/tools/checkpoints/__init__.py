"""Checkpoints of all formats, as arrays by name, and what can be done with these."""
