"""Documented path: hands on a manager of processes that ends with its parent."""

from returnn.compat.processes.watched_manager import create_manager

__all__ = ["create_manager"]
