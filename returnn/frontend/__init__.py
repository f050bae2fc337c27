"""
The frontend: operations on tensors with named dims, in the style of PyTorch, for several backends.

Usage: `import returnn.frontend as rf`.
"""

import sys

from returnn.frontend import audio, checkpoint, hooks, init, nested
from returnn.frontend._backend import *
from returnn.frontend._backend import backend_ctx, get_backend_by_raw_tensor_type, get_backend_by_tensor, select_backend
from returnn.frontend.amp import *
from returnn.frontend.array_ import *
from returnn.frontend.assert_ import *
from returnn.frontend.attention import *
from returnn.frontend.backend import is_backend_raw_tensor_dim_tag_independent
from returnn.frontend.build_from_dict import *
from returnn.frontend.cond import *
from returnn.frontend.const import *
from returnn.frontend.container import *
from returnn.frontend.control_flow_ctx import *
from returnn.frontend.conv import *
from returnn.frontend.device import *
from returnn.frontend.dims import *
from returnn.frontend.dropout import *
from returnn.frontend.dtype import *
from returnn.frontend.gradient import *
from returnn.frontend.graph import *
from returnn.frontend.label_smoothing import *
from returnn.frontend.linear import *
from returnn.frontend.loop import *
from returnn.frontend.loss import *
from returnn.frontend.math_ import *
from returnn.frontend.matmul import *
from returnn.frontend.module import *
from returnn.frontend.normalization import *
from returnn.frontend.packed import *
from returnn.frontend.parameter import *
from returnn.frontend.parametrizations import *
from returnn.frontend.parametrize import *
from returnn.frontend.piecewise_linear import *
from returnn.frontend.rand import *
from returnn.frontend.rec import *
from returnn.frontend.reduce import *
from returnn.frontend.run_ctx import *
from returnn.frontend.signal import *
from returnn.frontend.state import *
from returnn.frontend.static_traceable import *
from returnn.frontend.stepwise_scheduler import *
from returnn.frontend.tensor_array import *
from returnn.frontend.types import *
from returnn.tensor import Dim, Tensor
from returnn.tensor._frontend import register_frontend

register_frontend(sys.modules[__name__])
