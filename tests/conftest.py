"""What all tests share."""

import contextlib
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from returnn.util.behavior_version import BehaviorVersion
from tests.soak.fork_server import ForkServer

# The same examples each time, and no limits of time: how fast the machine is says nothing about the code.
settings.register_profile(
    "project", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("project")

# Signals count, also if the tests run in the background of a shell, or under nohup.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def default_behavior_version_afterwards() -> Iterator[None]:
    """The behavior version is one of the process."""
    yield
    BehaviorVersion.reset()


@pytest.fixture(autouse=True)
def no_run_ctx_afterwards() -> Iterator[None]:
    """The run context is one of the process. Its train flag belongs to a graph that is gone after the test."""
    yield
    run_ctx = sys.modules.get("returnn.frontend.run_ctx")
    if run_ctx is not None:
        run_ctx.reset_run_ctx()


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Starts `rnn.py`, for all tests without importing TensorFlow anew."""
    with ForkServer() as server:
        yield server


def pytest_collectstart() -> None:
    """Modules of tests make dims and tensors while they are imported, which others have put into graph mode."""
    _run_code_eagerly()


@pytest.fixture(autouse=True)
def eager_code_afterwards() -> Iterator[None]:
    """The engine works in TensorFlow's default graph. Other tests run eager code in the same process."""
    yield
    _run_code_eagerly()


def _run_code_eagerly() -> None:
    tf = sys.modules.get("tensorflow")
    if tf is not None and hasattr(tf, "compat") and not tf.executing_eagerly():
        with contextlib.suppress(AssertionError):  # it is not the default graph, but one that a fixture has entered
            tf.compat.v1.reset_default_graph()
            tf.compat.v1.enable_eager_execution()
