"""What all tests share."""

import contextlib
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from returnn.util.behavior_version import BehaviorVersion

# The same examples each time, and no limits of time: how fast the machine is says nothing about the code.
settings.register_profile(
    "project", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("project")


@pytest.fixture(autouse=True)
def default_behavior_version_afterwards() -> Iterator[None]:
    """The behavior version is one of the process."""
    yield
    BehaviorVersion.reset()


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
