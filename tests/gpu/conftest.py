"""Why there is nothing to test here, if so."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def native():
    """:return: `returnn.torch.frontend.native`, with kernels for the GPU that is here"""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    module = pytest.importorskip("returnn.torch.frontend.native")
    if module.get_operations() is None:
        pytest.skip("there is no compiler for C++")
    if module.get_gpu_library() is None:
        pytest.skip("kernels for the GPU cannot be compiled; a warning tells why")
    return module
