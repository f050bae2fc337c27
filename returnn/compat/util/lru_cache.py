"""Documented path: the cache of Python's own `functools`."""

from functools import lru_cache

__all__ = ["lru_cache"]
