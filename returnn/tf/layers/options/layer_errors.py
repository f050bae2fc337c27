"""
Errors while a layer is being made: whatever they are, the author of the config has to know where, and with what.

What helps is on a few lines. The whole traceback is in the log, at verbosity 5.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping

from returnn.log import log
from returnn.tensor import Tensor
from returnn.tensor.dim import VerifyOutShapeException
from returnn.tf.util.error_text import error_text
from returnn.util.errors import ConfigError, DimError, UserError

_MAX_LINES = 5


class OutShapeError(ConfigError, VerifyOutShapeException):
    """A layer does not have the dims that its option `out_shape` promises."""


@contextlib.contextmanager
def naming_layer(where: str, inputs: Callable[[], Mapping[str, Tensor]], *, loop: str = "") -> Iterator[None]:
    """
    What goes wrong inside becomes a `ConfigError` about the layer.

    :param where: the layer, as the message begins with it
    :param inputs: function that gives the tensors which go into it, by name
    :param loop: the one of which this is a step, if so, for errors about dims that are not there
    """
    try:
        yield
    except ConfigError as exc:
        if type(exc) is not ConfigError or str(exc).startswith("layer "):
            raise
        raise ConfigError(_message(where, str(exc), {})) from exc
    except UserError as exc:
        note = f"  In {loop}, layers see one frame." if loop and isinstance(exc, DimError) else ""
        error = OutShapeError if isinstance(exc, VerifyOutShapeException) else ConfigError
        raise error(_message(where, str(exc), inputs(), note=note)) from exc
    except Exception as exc:  # of TensorFlow, Python, or code of a user: they know nothing of layers
        print("".join(traceback.format_exception(exc)), file=log.v5)
        raise ConfigError(_message(where, error_text(exc), inputs())) from exc


@contextlib.contextmanager
def naming_option(option: str | None) -> Iterator[None]:
    """
    An error inside about a dim says which option it is about.

    :param option: of a layer; None if it is about none
    """
    try:
        yield
    except DimError as exc:
        if option is None:
            raise
        raise DimError(f"option {option!r}: {exc}") from exc


def _message(where: str, text: str, inputs: Mapping[str, Tensor], *, note: str = "") -> str:
    lines = [*f"{where}: {text}".splitlines(), *filter(None, [note])][:_MAX_LINES]
    tensors = {name: x for name, x in inputs.items() if isinstance(x, Tensor)}
    known = [f"  {name!r} has {x.get_description(with_name=False)}." for name, x in tensors.items()]
    return "\n".join([*lines, *known[: _MAX_LINES - len(lines)]])
