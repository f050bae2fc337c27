"""What configs expect from `from returnn.tf.layers.basic import *` and the like, beside what those modules have."""

import contextlib
import typing
from typing import *

import numpy
import tensorflow as tf

import returnn.tf.compat as tf_compat
from returnn.tensor import Dim, batch_dim
from returnn.tensor.batch_info import SearchBeam

np = numpy

__all__ = ["Dim", "SearchBeam", "batch_dim", "contextlib", "np", "numpy", "tf", "tf_compat", *typing.__all__]
