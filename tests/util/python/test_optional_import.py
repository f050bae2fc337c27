"""Packages that are not part of the base install."""

import sys

import pytest

from returnn.datasets.core.errors import DataError
from returnn.util.errors import MissingPackageError
from returnn.util.python.optional_import import check_installed, import_optional, import_part

TEXT = "The package 'nothing_like_that' is needed for pictures.\n  pip install nothing_like_that"


FRAMEWORK_TEXT = "The package 'tensorflow' is needed for backend = 'tensorflow'.\n  pip install tensorflow-cpu"


@pytest.mark.parametrize("get", [check_installed, import_optional])
def test_missing_package(get):
    with pytest.raises(MissingPackageError) as info:
        get("nothing_like_that", needed_for="pictures")
    assert str(info.value) == TEXT


def test_part_without_its_framework(monkeypatch):
    """What asks for it is an option here, and the name for pip is another one."""

    def fail(module):
        raise ModuleNotFoundError("No module named 'tensorflow.python'", name="tensorflow.python")

    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(MissingPackageError) as info:
        import_part("returnn.tf.engine_rf", needed_for="backend = 'tensorflow'")
    assert str(info.value) == FRAMEWORK_TEXT


def test_what_is_installed_is_not_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    check_installed("colorsys", needed_for="pictures")
    assert "colorsys" not in sys.modules


def test_the_command_can_be_copied_from_an_error_of_a_data_set():
    """With a dot behind it, it would be another name."""
    error = DataError(TEXT, dataset="OggZipDataset", seq="a", file="a.ogg")
    assert str(error).splitlines()[1:] == ["  pip install nothing_like_that", "  File: a.ogg"]
