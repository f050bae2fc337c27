"""Models of the demos as one would write them by hand in plain PyTorch, to compare with."""
