"""Traces of variables, and what is shown of crashes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import pytest

import returnn.frontend  # noqa: F401 - tensors with values need it
from returnn.tensor import Dim, Tensor
from returnn.util import debug
from returnn.util.errors import ConfigError


def of_frontend(x):
    y = x
    for _ in range(2):
        y = Tensor("y", y.dims, "float32", raw_tensor=y.raw_tensor * 2)
    return y


def of_other(x):
    y = x.T
    for _ in range(2):
        y = y * 2
    return y


def test_values_of_variables_can_be_compared():
    a, b = Dim(2, name="a"), Dim(3, name="b")
    x = numpy.arange(6, dtype="float32").reshape(2, 3)
    with debug.PyTracer([of_frontend], Tensor) as trace_rf:
        of_frontend(Tensor("x", [a, b], "float32", raw_tensor=x))
        of_other(x)
    with debug.PyTracer([of_other], numpy.ndarray) as trace_pt:
        of_other(x)
    assert sys.gettrace() is not trace_pt
    (values,) = trace_rf.captured_locals[of_frontend]
    assert [len(values[name]) for name in ("x", "y")] == [1, 3]

    def check(index_rf, index_pt, how):
        places = (of_frontend, 0, "y", index_rf), (of_other, 0, "y", index_pt)
        debug.check_py_traces_rf_to_pt_equal(trace_rf.captured_locals, trace_pt.captured_locals, [(*places, how)])

    check(-1, -1, (b, a))
    check(1, 1, lambda y: y.T)
    with pytest.raises(AssertionError, match="of_frontend: y and of_other: y"):
        check(1, 2, (b, a))
    with pytest.raises(AssertionError, match="call 0: there is no value 7 of 'y'"):
        check(7, 0, (b, a))


def test_threads_of_a_library_are_left_out(capsys):
    end = threading.Event()

    @debug.auto_exclude_all_new_threads
    def of_library():
        threading.Thread(target=end.wait, name="of the library", daemon=True).start()
        return 3

    assert of_library() == 3
    threading.Thread(target=end.wait, name="my own", daemon=True).start()
    debug.dump_all_thread_tracebacks()
    end.set()
    text = capsys.readouterr().err
    assert "my own" in text
    assert "of the library" not in text


def test_a_crash_shows_the_stack_of_native_code(tmp_path):
    code = (
        "import ctypes\nfrom returnn.util import debug\n"
        "debug.init_faulthandler()\ndebug.install_subproc_faulthandler()\n"
        "debug.install_native_signal_handler(reraise_exceptions=True)\nctypes.string_at(1)\n"
    )
    env = {**os.environ, "RETURNN_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(debug.__file__).parents[2])}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert result.returncode < 0
    assert "native stack, innermost call first:" in result.stderr
    assert "libffi" in result.stderr or "ctypes" in result.stderr
    assert "Fatal Python error: Segmentation fault" in result.stderr


def test_what_was_about_theano():
    with pytest.raises(ConfigError, match="it was about Theano"):
        debug.init_cuda_not_in_main_proc_check()
