"""Training, evaluation, search and forwarding of models of the frontend, by PyTorch."""

from returnn.torch.engine.engine import Engine

__all__ = ["Engine"]
