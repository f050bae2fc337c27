#!/usr/bin/env python3
"""Runs the toolkit from its folder: `python rnn.py CONFIG`."""

import sys

from returnn.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
