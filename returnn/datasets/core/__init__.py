"""Base classes of data sets, what they share, and batches of sequences."""
