"""Documented path: hands on names for configs. The code is in `returnn.compat.util.debug_helpers`."""

from returnn.compat.util.debug_helpers import *
