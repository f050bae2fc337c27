"""Documented path: hands on names for configs. The code is in `returnn.compat.util.collect_outputs_dict`."""

from returnn.compat.util.collect_outputs_dict import *
