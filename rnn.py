#!/usr/bin/env python3
"""
Runs the toolkit from its folder: `python rnn.py CONFIG`.

Old scripts have this folder in their `sys.path` and say `import rnn; rnn.init(...)`. They get `returnn.__main__`.
"""

import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `main` has a better way, Ctrl-C leaves no traceback

try:
    from returnn.__main__ import main_and_exit
except ModuleNotFoundError as exc:
    if __name__ != "__main__" or (exc.name or "").partition(".")[0] == "returnn":
        raise
    sys.exit(
        f"error: the package {exc.name!r} is not there, for {sys.executable}.\n"
        '  Install what the toolkit needs: python -m pip install -e ".[cpu]", or activate the environment that has it.'
    )

if __name__ == "__main__":
    main_and_exit()
elif __name__ == "rnn":
    sys.modules[__name__] = sys.modules[main_and_exit.__module__]
