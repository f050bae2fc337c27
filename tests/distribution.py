"""
Which process of `-n` runs what: a file is run by one of them, so that all its tests share one graph, one build, one
training. What takes long starts first, so that nobody waits for it at the end.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler.loadscope import LoadScopeScheduling

# In the order in which they start: files that take a minute or more.
LONG = (
    "tests/demos/test_recipes.py",
    "tests/soak/test_soak.py",
    "tests/tf/distributed/test_faults.py",
    "tests/torch/distributed/test_faults.py",
    "tests/frontend/test_op_properties.py",
    "tests/tf/layers/loop/test_layers_in_loops.py",
    "tests/tf/layers/test_layer_properties.py",
    "tests/demos/test_rf_demos.py",
    "tests/demos/test_small.py",
    "tests/configs/test_configs.py",
    "tests/tf/by_hand/test_all_layer_classes.py",
    "tests/torch/test_engine.py",
    "tests/tf/frontend_layers/test_operations.py",
    "tests/tools/test_wheel.py",
    "tests/demos/test_export.py",
    "tests/test_readme.py",
)
# Each of their tests by itself: together they would be the last to end, and they share nothing that costs time.
APART = {
    "tests/configs/test_configs.py",
    "tests/demos/test_export.py",
    "tests/demos/test_recipes.py",
    "tests/demos/test_rf_demos.py",
    "tests/demos/test_small.py",
}


def file_of(nodeid: str) -> str:
    """:return: in which file a test is"""
    return nodeid.partition("::")[0]


def start_of(nodeid: str) -> int:
    """:return: the smaller, the earlier it starts"""
    file = file_of(nodeid)
    return LONG.index(file) if file in LONG else len(LONG)


class FilesTogether(LoadScopeScheduling):
    """Gives a process a file at a time, in the order of the tests."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # by `start_of`, not by numbers of tests

    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return nodeid if file in APART else file
