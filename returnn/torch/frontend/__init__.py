"""The frontend on PyTorch tensors. Needs the optional package `torch`."""

from returnn.torch.frontend._backend import TorchBackend

__all__ = ["TorchBackend"]
