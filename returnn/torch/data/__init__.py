"""From data sets to tensors of PyTorch."""
