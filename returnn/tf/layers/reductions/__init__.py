"""Sums, means, norms, softmax and other statistics over dims."""
