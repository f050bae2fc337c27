"""Documented path: hands on names for configs. The code is in `returnn.compat.util.math`."""

from returnn.compat.util.math import *
