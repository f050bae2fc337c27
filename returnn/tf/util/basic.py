"""Documented path: hands on names for configs. The code is in `returnn.compat.tf_util.names`."""

from returnn.compat.tf_util.names import *
