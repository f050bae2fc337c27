"""
What needs a GPU of NVIDIA, and PyTorch with CUDA. Everywhere else, each test is skipped, with the reason.

`python -m tests.gpu` runs all of it and the benchmarks, and leaves a report.
"""
