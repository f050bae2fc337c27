"""Documented path: hands on names for configs. The code is in `returnn.compat.tf_util.data`."""

from returnn.compat.tf_util.data import *
