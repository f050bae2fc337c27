"""The training loop, without a framework."""
