"""The data sets are usable alone: without any framework, and without what is optional."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import importlib, pkgutil, sys
import returnn.datasets
for module in pkgutil.walk_packages(returnn.datasets.__path__, "returnn.datasets."):
    importlib.import_module(module.name)
heavy = {"tensorflow", "torch", "soundfile", "sentencepiece", "datasets", "nltk", "librosa", "transformers"}
print(*sorted(heavy & set(sys.modules)))
"""


def test_no_module_imports_a_framework_or_an_optional_package():
    result = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
