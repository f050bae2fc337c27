"""`PyTracer`: the values of local variables of some functions, over time, to compare two implementations of a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any

import numpy

Trace = dict[Callable[..., Any], list[dict[str, list[Any]]]]  # by function and variable: a list per call
Place = tuple[Callable[..., Any], int, str, int]  # function, number of the call, variable, number of the value


class PyTracer:
    """Looks at variables while it is entered by `with`. It slows Python down."""

    def __init__(self, funcs_to_trace_list: Sequence[Callable[..., Any]], capture_type: type | tuple[type, ...]):
        """
        :param funcs_to_trace_list: functions and methods, written in Python
        :param capture_type: of the values that count, such as `Tensor`
        """
        self.funcs_to_trace_list = list(funcs_to_trace_list)
        self.capture_type = capture_type
        self.captured_locals: Trace = {}
        self._functions: dict[CodeType, Callable[..., Any]] = {_code_of(func): func for func in funcs_to_trace_list}
        self._calls: dict[FrameType, dict[str, list[Any]]] = {}
        self._before: Any = None

    def __enter__(self) -> PyTracer:
        self._before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, exc_type: Any, exc: BaseException | None, tb: TracebackType | None) -> None:
        sys.settrace(self._before)
        self._calls.clear()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> PyTracer | None:
        """What Python calls for each line."""
        function = self._functions.get(frame.f_code)
        if function is None:
            return None
        if event == "call":
            self._calls[frame] = {}
            self.captured_locals.setdefault(function, []).append(self._calls[frame])
        values = self._calls.get(frame)
        if values is None:
            return None
        for name, value in list(frame.f_locals.items()):
            if isinstance(value, self.capture_type) and not (values.get(name) and values[name][-1] is value):
                values.setdefault(name, []).append(value)
        if event == "return":
            del self._calls[frame]
        return self


def check_py_traces_rf_to_pt_equal(
    trace_rf: Trace,
    trace_pt: Trace,
    checks: Sequence[tuple[Place, Place, Any]],
    *,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """
    Compares values of a model in the frontend with those of another one in PyTorch.

    :param trace_rf: `captured_locals` of the former, tensors with dims
    :param trace_pt: of the latter
    :param checks: where the values of both are, and the dims of the former in the order of the axes of the latter, or a
        function that makes an array of the former out of the latter
    :param rtol: how much they may differ
    :param atol: how much they may differ
    :raises AssertionError: if a value is not there, or is another one
    """
    for place_rf, place_pt, how in checks:
        value_rf, value_pt = _value_at(trace_rf, place_rf), _value_at(trace_pt, place_pt)
        if callable(how):
            value_pt, dims = how(value_pt), value_rf.dims
            if hasattr(value_pt, "copy_compatible_to_dims_raw"):
                value_pt = value_pt.copy_compatible_to_dims_raw(dims)
        else:
            dims = how
        arrays = [_array(value_rf.copy_compatible_to_dims_raw(dims)), _array(value_pt)]
        name = f"{place_rf[0].__qualname__}: {place_rf[2]} and {place_pt[0].__qualname__}: {place_pt[2]}"
        numpy.testing.assert_allclose(arrays[0], arrays[1], rtol=rtol, atol=atol, err_msg=name)


def _value_at(trace: Trace, place: Place) -> Any:
    function, call, name, index = place
    try:
        return trace[function][call][name][index]
    except (KeyError, IndexError) as exc:
        known = [sorted(values) for values in trace.get(function, [])]
        text = (
            f"{function.__qualname__}, call {call}: there is no value {index} of {name!r}. Variables by call: {known}"
        )
        raise AssertionError(text) from exc


def _array(value: Any) -> Any:
    return numpy.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _code_of(function: Any) -> CodeType:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code: CodeType = getattr(function, "__func__", function).__code__
    return code
