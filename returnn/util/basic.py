"""Documented path: hands on names for configs. The code is in `returnn.compat.util.names`."""

from returnn.compat.util.names import *
