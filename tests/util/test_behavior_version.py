import io

import pytest

from returnn.log import wrap_log_streams
from returnn.util.basic import BehaviorVersion
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import forget_shown


@pytest.fixture(autouse=True)
def reset():
    BehaviorVersion.reset()
    yield
    BehaviorVersion.reset()


def test_without_a_version_it_is_the_minimum():
    BehaviorVersion.set(None)
    assert BehaviorVersion.get() == 0
    assert BehaviorVersion.get_if_set() is None
    assert not BehaviorVersion.is_set()
    BehaviorVersion.set_min_behavior_version(12)
    assert BehaviorVersion.get() == 12


def test_set_and_reset():
    BehaviorVersion.set(21)
    BehaviorVersion.set(21)
    assert BehaviorVersion.get() == BehaviorVersion.get_if_set() == 21
    BehaviorVersion.reset()
    assert BehaviorVersion.get() == 0


def test_wrong_versions():
    with pytest.raises(ConfigError, match=r"there is no version 31\.\n  Possible: 0 to 30\."):
        BehaviorVersion.set(31)
    BehaviorVersion.set(5)
    with pytest.raises(ConfigError, match="is 5 already, and cannot become 6"):
        BehaviorVersion.set(6)
    with pytest.raises(ConfigError, match="5 is too low, at least 7 is needed"):
        BehaviorVersion.set_min_behavior_version(7)


def test_require():
    BehaviorVersion.set(10)
    forget_shown()
    stream = io.StringIO()
    with wrap_log_streams(stream):
        BehaviorVersion.require(True, "use b", version=5)
        BehaviorVersion.require(False, "use b", version=11)
        BehaviorVersion.require(False, "use b", version=11)
    assert stream.getvalue() == "DEPRECATION WARNING: use b\nThis is an error since behavior_version 11.\n"
    with pytest.raises(BehaviorVersion.RequirementNotSatisfied, match=r"use b \(since behavior_version 10, here 10\)"):
        BehaviorVersion.require(False, "use b", version=10)


def test_callbacks(monkeypatch):
    calls = []
    monkeypatch.setattr(BehaviorVersion, "handle_new_min_version_callbacks", [lambda: calls.append("new")])
    monkeypatch.setattr(BehaviorVersion, "reset_callbacks", [lambda: calls.append("reset")])
    BehaviorVersion.set(3)
    BehaviorVersion.reset()
    assert calls == ["new", "reset"]
