"""
Operations by concept, each with its rule for dims and its computation on arrays.

The raw operations that they need are declared in `_backends/required.py`. TensorFlow has its own in
`tf/frontend_low_level/raw.py`, PyTorch in `torch/frontend/raw.py`.
"""
