"""Imported by the other scripts: makes the package of this checkout importable."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def setup() -> None:
    """Puts the checkout in front of what is installed."""
    if ROOT not in sys.path:
        sys.path.insert(0, ROOT)


setup()
