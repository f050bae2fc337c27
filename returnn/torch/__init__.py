"""Everything on PyTorch: the frontend backend."""
