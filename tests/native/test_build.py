import logging
import os
import subprocess

import pytest

from returnn.native import build, library
from returnn.native.build import KernelCompiler
from returnn.util.system.warn_once import forget_shown
from tests.native import kernels


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RETURNN_CACHE_DIR", str(tmp_path / "cache"))
    library.get_library.cache_clear()
    forget_shown()
    yield
    library.get_library.cache_clear()
    forget_shown()


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "returnn"]


def test_missing_compiler_is_one_warning(empty_cache, monkeypatch, caplog):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert library.get_library() is None
    assert library.get_library() is None
    (message,) = warnings(caplog)
    assert message == (
        "WARNING: There are no native kernels, recurrent layers and alignments are slower: "
        "there is no compiler: none of g++, clang++, c++ is installed."
    )


def test_folder_that_cannot_be_made_is_a_warning(empty_cache, monkeypatch, tmp_path, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RETURNN_CACHE_DIR", str(tmp_path / "file" / "mine" / "cache"))
    assert library.get_library() is None
    first, hint = warnings(caplog)[-1].splitlines()
    assert "alignments are slower: cannot make the folder " in first
    assert first.endswith(": Not a directory.")
    assert hint == "  The environment variable RETURNN_CACHE_DIR names another place for compiled code."


def test_failing_compiler_is_a_warning_with_its_first_error(empty_cache, monkeypatch, tmp_path, caplog):
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho 'note: hello'\necho 'fatal error: it is broken'\nexit 1\n", encoding="utf8")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert library.get_library() is None
    first = warnings(caplog)[-1].splitlines()[0]
    assert first == (
        "WARNING: There are no native kernels, recurrent layers and alignments are slower: "
        "native kernels cannot be compiled: fatal error: it is broken"
    )


def test_kernels_can_be_turned_off(empty_cache, monkeypatch, caplog):
    monkeypatch.setenv("RETURNN_NATIVE", "0")
    monkeypatch.setattr(library, "KernelCompiler", None)
    assert library.get_library() is None
    assert not warnings(caplog)


def test_a_line_tells_that_it_compiles_and_it_does_so_once(empty_cache, monkeypatch, caplog):
    kernels.library("plain")  # so that it is skipped without a compiler
    monkeypatch.setattr(build, "kernel_sources", list)
    caplog.set_level(logging.INFO, logger="returnn")
    filename = KernelCompiler("none", levels=["plain"]).get_lib_filename()
    start, *_, end = warnings(caplog)  # between them, it may say that it waits
    assert start == "native kernels: compiling for plain, once."
    assert end.startswith("native kernels: compiled in ")
    assert end.endswith(f" s, kept in {os.path.dirname(filename)}.")
    objects = ["registry.o", "signature.o", "threads.o"]  # of which libraries with a binding are linked
    assert sorted(os.listdir(os.path.dirname(filename))) == ["info.json", "none.so", *objects]
    monkeypatch.setattr(subprocess, "run", None)
    assert KernelCompiler("none", levels=["plain"]).get_lib_filename() == filename
    others = [KernelCompiler("none", levels=["avx2"]), KernelCompiler("none", levels=["plain"], flags=["-g"])]
    assert filename not in [other.cache_dir for other in others]


def test_lower_level_on_demand(monkeypatch):
    monkeypatch.setenv("RETURNN_NATIVE_LEVEL", "plain")
    assert build.cpu_level() == "plain"
    monkeypatch.setenv("RETURNN_NATIVE_LEVEL", "avx1024")
    with pytest.raises(ValueError, match="RETURNN_NATIVE_LEVEL: there is no level 'avx1024'"):
        build.cpu_level()


@pytest.mark.parametrize("level", kernels.LEVELS)
def test_library_says_for_which_level_it_is(level):
    assert kernels.library(level).level == level
