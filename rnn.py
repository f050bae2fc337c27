#!/usr/bin/env python3
"""Runs the toolkit from its folder: `python rnn.py CONFIG`."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `main` has a better way, Ctrl-C leaves no traceback

from returnn.__main__ import main_and_exit

if __name__ == "__main__":
    main_and_exit()
