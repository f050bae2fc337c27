"""What is shown when native code crashes, beyond what Python's `faulthandler` does."""

from __future__ import annotations

import ctypes
import ctypes.util
import faulthandler
import os
import sys

from returnn.util.errors import ConfigError
from returnn.util.native_code_compiler import NativeCodeCompiler

_SIGNALS = "SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT"
_CODE = f"""
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const int signals[] = {{{_SIGNALS}}};
enum {{ num_signals = sizeof(signals) / sizeof(signals[0]) }};
static struct sigaction before[num_signals];

static void show(int signum) {{
  void *frames[100];
  static const char text[] = "native stack, innermost call first:\\n";
  int i, num = backtrace(frames, 100);
  if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) num = 0;
  backtrace_symbols_fd(frames, num, STDERR_FILENO);
  for (i = 0; i < num_signals; ++i)
    if (signals[i] == signum) sigaction(signum, &before[i], 0);
  raise(signum);  /* whoever was there before comes next, such as faulthandler */
}}

void install_signal_handler(void) {{
  struct sigaction action;
  void *frame[1];
  int i;
  backtrace(frame, 1);  /* loads its library now, which is not allowed in a handler */
  memset(&action, 0, sizeof(action));
  action.sa_handler = show;
  action.sa_flags = SA_NODEFER;
  for (i = 0; i < num_signals; ++i) sigaction(signals[i], &action, &before[i]);
}}
"""


def install_native_signal_handler(*, reraise_exceptions: bool = False) -> None:
    """
    A crash shows the stack of calls in native code. It is compiled, so there has to be a compiler.

    :param reraise_exceptions: if it cannot be installed, that is an error; otherwise, a message
    """
    try:
        code = NativeCodeCompiler("native_signal_handler", code=_CODE, is_cpp=False)
        code.load_lib_ctypes().install_signal_handler()
    except Exception as exc:
        if reraise_exceptions:
            raise
        print(f"no stacks of native code will be shown: {exc}", file=sys.stderr)


def install_lib_sig_segfault() -> None:
    """
    A crash shows registers and the stack, by `libSegFault.so`, for the signals in `SEGFAULT_SIGNALS` (default: all).

    Newer versions of glibc do not have it. Then there is a message, and `install_native_signal_handler` instead.
    """
    os.environ.setdefault("SEGFAULT_SIGNALS", "all")
    path = ctypes.util.find_library("SegFault") or "libSegFault.so"
    try:
        ctypes.CDLL(path)
    except OSError:
        print("this system has no libSegFault.so", file=sys.stderr)
        install_native_signal_handler()


def install_subproc_faulthandler() -> None:
    """In processes that this one forks or starts, Python's `faulthandler` is enabled from the begin."""
    os.environ["PYTHONFAULTHANDLER"] = "1"  # of programs in Python
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_enable_faulthandler)


def init_cuda_not_in_main_proc_check() -> None:
    """:raises ConfigError: as it was about the process of Theano which uses the GPU"""
    raise ConfigError(
        "init_cuda_not_in_main_proc_check: it was about Theano.\n"
        "  Today, a process takes the GPU when it uses it; `CUDA_VISIBLE_DEVICES` hides it."
    )


def _enable_faulthandler() -> None:
    try:
        faulthandler.enable()
    except (OSError, ValueError, AttributeError):  # there is no standard error
        return
