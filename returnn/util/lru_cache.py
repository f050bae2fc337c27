"""Documented path: hands on names for configs. The code is in `returnn.compat.util.lru_cache`."""

from returnn.compat.util.lru_cache import *
