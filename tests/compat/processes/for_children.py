"""What processes run that the tests start."""

import os
import sys
import time


def pre_init():
    os.environ["WAS_INITIALIZED"] = "1"


class Argument:
    """Knows whether it was read after `pre_init`."""

    def __init__(self):
        self.was_initialized = None

    def __setstate__(self, state):
        self.was_initialized = os.environ.get("WAS_INITIALIZED") == "1"

    def __getstate__(self):
        return {"x": 1}


def answer(argument, queue):
    queue.put((argument.was_initialized, "tensorflow" in sys.modules))


def sleep():
    time.sleep(1000)
