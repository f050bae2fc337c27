"""Documented path: hands on names for configs. The code is in `returnn.compat.util.result_with_reason`."""

from returnn.compat.util.result_with_reason import *
