"""Documented path: hands on names for configs. The code is in `returnn.compat.fsa`."""

from returnn.compat.fsa import *
