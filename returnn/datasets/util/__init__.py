"""Helpers of the data sets."""
