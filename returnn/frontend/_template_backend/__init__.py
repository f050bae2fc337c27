"""
The template backend: which dims, dtype, sparse and feature dim come out of an operation. Nothing is computed.

It is asked when an operand has no value; and by all other backends, which fill in the value. So the rules, and the
errors about wrong use, are in one place.
"""

from returnn.frontend._backend import Backend, register_backend
from returnn.frontend._template_backend.control_flow import ControlFlowRules
from returnn.frontend._template_backend.conv import ConvRules
from returnn.frontend._template_backend.core import CoreRules
from returnn.frontend._template_backend.ctc import CtcRules
from returnn.frontend._template_backend.gradient import GradientRules
from returnn.frontend._template_backend.numeric import NumericRules
from returnn.frontend._template_backend.parameter import ParameterRules
from returnn.frontend._template_backend.random import RandomRules
from returnn.frontend._template_backend.rec import RecRules
from returnn.frontend._template_backend.select import SelectRules
from returnn.frontend._template_backend.shape import ShapeRules
from returnn.frontend._template_backend.softmax import SoftmaxRules
from returnn.frontend._template_backend.tensor_array import TensorArrayRules


class TemplateBackend(
    CoreRules,
    SoftmaxRules,
    RecRules,
    CtcRules,
    ConvRules,
    ShapeRules,
    SelectRules,
    NumericRules,
    RandomRules,
    GradientRules,
    ControlFlowRules,
    ParameterRules,
    TensorArrayRules,
    Backend[None],
):
    """See the head of this module. All operands are templates, or are taken as such."""

    name = "template"
    RawTensorType = type(None)


register_backend(TemplateBackend)
