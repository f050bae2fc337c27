#!/usr/bin/env python3
"""`returnn tool rescore-lattices`, from a checkout."""

import sys

import _setup_returnn_env  # noqa: F401

from returnn.tools.registry import run_script

if __name__ == "__main__":
    sys.exit(run_script(__file__))
