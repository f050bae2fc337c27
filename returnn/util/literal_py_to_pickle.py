"""Documented path: hands on names for configs. The code is in `returnn.compat.util.literal_py_to_pickle`."""

from returnn.compat.util.literal_py_to_pickle import *
