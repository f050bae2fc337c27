"""Layers that make values: constants, random numbers, ranges, lengths, variables."""
