"""What all tests share."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def eager_code_afterwards() -> Iterator[None]:
    """The engine works in TensorFlow's default graph. Other tests run eager code in the same process."""
    yield
    tf = sys.modules.get("tensorflow")
    if tf is not None and not tf.executing_eagerly():
        tf.compat.v1.reset_default_graph()
        tf.compat.v1.enable_eager_execution()
