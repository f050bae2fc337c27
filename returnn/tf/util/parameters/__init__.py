"""Parameters on raw tensors: their initial values, noise, what changes them, states of random generators."""
