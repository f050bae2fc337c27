"""What all tests share."""

import contextlib
import functools
import gc
import importlib
import os
import signal
import sys
import unittest.mock
from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from returnn.log import log
from returnn.util.backend_engine import BackendEngine
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.system.warn_once import forget_shown
from tests.distribution import FilesTogether, start_of
from tests.soak.fork_server import ForkServer

# The same examples each time, and no limits of time: how fast the machine is says nothing about the code.
settings.register_profile(
    "project", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("project")

# Hundreds of processes of the tests import the toolkit. A fifth of what that costs is to compile it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# There are as many processes of the tests as cores. Threads of PyTorch and NumPy that wait for each other take twice
# the time of one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

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
def no_waiting_errors_afterwards() -> Iterator[None]:
    """Tracebacks keep data sets alive, whose errors about empty sequences wait for some of the same tag."""
    yield
    data_check = sys.modules.get("returnn.datasets.core.data_check")
    if data_check is not None:
        data_check.empty_seqs._errors.clear()


@pytest.fixture(autouse=True)
def no_run_ctx_afterwards() -> Iterator[None]:
    """The run context is one of the process. Its train flag belongs to a graph that is gone after the test."""
    yield
    run_ctx = sys.modules.get("returnn.frontend.run_ctx")
    if run_ctx is not None:
        run_ctx.reset_run_ctx()


@pytest.fixture(autouse=True)
def engine_afterwards() -> Iterator[None]:
    """The engine, TensorFlow or PyTorch, is one of the process."""
    before = BackendEngine.selected_engine
    yield
    BackendEngine.selected_engine = before


@pytest.fixture(scope="module", autouse=True)
def engine_after_the_file() -> Iterator[None]:
    """What all tests of a file share can select an engine, too, and with it a backend of the frontend."""
    before = BackendEngine.selected_engine
    backends = importlib.import_module("returnn.frontend._backend")._selected
    selected = list(backends)
    yield
    BackendEngine.selected_engine = before
    backends[:] = selected


@pytest.fixture(scope="module", autouse=True)
def gradients_first(request: pytest.FixtureRequest) -> Iterator[None]:
    """Graphs of tests have their gradients before they run, which is faster. Scripts have them when they want."""
    is_script = "by_hand" in request.path.parts
    if "tensorflow" not in sys.modules or is_script:
        yield
        return
    with importlib.import_module("returnn.tf.frontend_low_level.later_gradients").gradients_come_first():
        yield


@pytest.fixture(scope="module", autouse=True)
def graphs_run_as_they_are(request: pytest.FixtureRequest) -> Iterator[None]:
    """
    TensorFlow rewrites each graph before its first run, which takes as long as all else in a small network.

    Sessions that say nothing of it leave it out. With it run all engines, which are configured, the recorded cases, and
    scripts by hand.
    """
    if "tensorflow" not in sys.modules or {"by_hand", "golden"} & set(request.path.parts):
        yield
        return
    import tensorflow as tf  # noqa: PLC0415 (only where it is there)

    session, init = tf.compat.v1.Session, tf.compat.v1.Session.__init__

    def plain_init(self: object, target: str = "", graph: object = None, config: object = None) -> None:
        if config is None:
            config = tf.compat.v1.ConfigProto()
            config.graph_options.rewrite_options.disable_meta_optimizer = True
        init(self, target, graph, config)

    with unittest.mock.patch.object(session, "__init__", plain_init):
        yield


@pytest.fixture(scope="module", autouse=True)
def no_learning_curves(request: pytest.FixtureRequest) -> Iterator[None]:
    """To draw the learning curve takes as long as all else of a small training. What tests the picture has it."""
    curve = sys.modules.get("returnn.engine.report.learning_curve")
    if curve is None or {"report", "demos"} & set(request.path.parts):
        yield
        return
    with unittest.mock.patch.object(curve, "draw_learning_curve"):
        yield


@pytest.fixture(autouse=True)
def whole_log_afterwards() -> Iterator[None]:
    """The log is one of the process. Configs with a small verbosity leave to other tests all that is printed."""
    yield
    if not all(log.verbose):
        log.initialize(verbosity=[5])


@pytest.fixture(autouse=True)
def warnings_come_again() -> Iterator[None]:
    """Which warnings were shown is known to the process. Each test sees its own, whatever others have seen."""
    yield
    forget_shown()


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Starts `rnn.py`, for all tests without importing TensorFlow anew."""
    with ForkServer() as server:
        yield server


def pytest_xdist_auto_num_workers() -> int:
    """:return: number of processes for `-n auto`: one more than cores, as some tests wait for processes of their own"""
    return len(os.sched_getaffinity(0)) + 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesTogether:
    """:return: what gives the processes of `-n` their tests"""
    return FilesTogether(config, log)


def pytest_collection_finish() -> None:
    """What is there by now stays to the end: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    What takes long is first, for the processes of `-n`.

    Which process or thread comes first is up to the machine and to what else it does. A test of several of them
    runs once more if it fails, and the summary names it (RERUN); one that fails twice has failed.
    """
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    assert not unstable, f"names differ between the processes of -n, as they have addresses: {unstable[:3]}"
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: start_of(item.nodeid))
    for item in items:
        if "fork_server" in getattr(item, "fixturenames", ()) or _starts_processes(getattr(item, "module", None)):
            item.add_marker(pytest.mark.flaky(reruns=1))


@functools.cache
def _starts_processes(module: ModuleType | None) -> bool:
    """:return: whether it, or a module of the tests from which it takes a function, works with processes"""
    values = list(vars(module).values()) if module else []
    names = {getattr(value, "__module__", None) for value in values} | {
        getattr(value, "__name__", None) for value in values
    }
    modules = [
        module,
        *(sys.modules.get(name) for name in names if isinstance(name, str) and name.startswith("tests.")),
    ]
    return any(hasattr(each, name) for each in modules for name in ("subprocess", "multiprocessing", "socket"))


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
