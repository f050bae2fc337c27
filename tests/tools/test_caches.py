"""Scripts about what is kept on this machine: the file cache, and compiled kernels."""

import os
import subprocess
import sys
import time

import pytest

from returnn import native_op
from returnn.native import library
from returnn.tools.commands.models import compile_native_op
from returnn.util.file_cache import FileCache
from tests.native import kernels


@pytest.fixture
def cache(tmp_path):
    """A cache with a file that was used now, and one that was used long ago."""
    folder = tmp_path / "cache"
    cache = FileCache(cache_directory=str(folder))
    for name, days in (("new", 0), ("old", 40)):
        (tmp_path / name).write_bytes(b"x" * 100)
        local = cache.get_file(str(tmp_path / name))
        cache.release_files([local])
        os.utime(local, (time.time() - days * 24 * 3600,) * 2)
    return folder


def names(cache):
    return sorted(os.path.basename(path) for _, _, path in FileCache(cache_directory=str(cache)).iter_files())


def test_cache_is_shown(tool, cache):
    status, out, err = tool("file-cache", "info", "--cache-dir", cache)
    assert (status, err) == (0, "")
    first, second, last = out.splitlines()
    assert first.split("\t")[1] == "40.0 days"
    assert first.endswith("/old")
    assert second.split("\t")[1] == "0.0 days"
    assert last == f"{cache}: 2 files, 200B"


def test_cleanup(tool, cache):
    keep = ["--cleanup-disk-usage-wanted-free-ratio", 0, "--cleanup-files-always-older-than-days"]
    assert tool("file-cache", "cleanup", "--cache-dir", cache, *keep, 50)[:2] == (0, f"{cache}: deleted 0B\n")
    assert names(cache) == ["new", "old"]
    assert tool("file-cache", "cleanup", "--cache-dir", cache, *keep, 30)[:2] == (0, f"{cache}: deleted 100B\n")
    assert names(cache) == ["new"]
    status, _, err = tool("file-cache", "cleanup", "--cache-dir", cache, "--cleanup-require-free-space", "9999999T")
    assert status == 1
    assert err.startswith(f"error: file cache '{cache}': ")
    assert names(cache) == ["new"]


def test_temp_dir(tool, tmp_path):
    out = tool("file-cache", "info", "--temp-dir", tmp_path)[1]
    assert out.startswith(f"{tmp_path}/")
    assert out.endswith("/returnn/file_cache: 0 files, 0B\n")
    assert tool("file-cache", "info", "--temp-dir", tmp_path / "x")[2] == (
        f"error: option '--temp-dir': there is no folder '{tmp_path / 'x'}'.\n"
    )


def test_wrong_options_of_the_cache(tool, cache):
    assert tool("file-cache", "cleanup", "--cleanup-require-free-space", "much")[2] == (
        "error: option '--cleanup-require-free-space': 'much' is no size, such as 500M or 10G.\n"
    )
    assert tool("file-cache", "info", "--cache-dir", cache, "--cleanup-require-free-space", "1G")[2] == (
        "error: 'info' deletes nothing: leave out '--cleanup-require-free-space'.\n"
    )


def test_kernels_are_compiled(tmp_path, config_file):
    """In processes of their own: a library that is loaded twice is not the same for TensorFlow."""
    kernels.library("plain")  # so that it is skipped without a compiler
    names_file = tmp_path / "names"
    command = [sys.executable, "-m", "returnn", "tool", "compile_native_op", "--output_file", str(names_file)]
    done = subprocess.run(
        [*command, "--native_op", "lstm", "--verbosity", "1"], capture_output=True, text=True, check=True
    )
    filename = names_file.read_text().removesuffix("\n")
    assert f"library: {filename}\n" in done.stdout
    assert "lstm" in library.Library(filename).kernels
    subprocess.run([*command, "--config", str(config_file(use_tensorflow=True))], capture_output=True, check=True)
    assert "tf_ops" in names_file.read_text()


@pytest.mark.parametrize("flags", [
    ("NativeLstm2", "--no_search_for_numpy_blas"),
    ("GetCtcFsaFastBwOp", "--search_for_numpy_blas", "--blas_lib", "libblas.so"),
])  # fmt: skip
def test_kernels_by_an_operation_of_the_original(tmp_path, flags):
    """TensorFlow has to be able to load the library, for a graph that another program runs."""
    kernels.library("plain")
    names_file = tmp_path / "names"
    command = [sys.executable, "-m", "returnn", "tool", "compile_native_op", "--output_file", str(names_file)]
    done = subprocess.run([*command, "--native_op", *flags], capture_output=True, text=True, check=True)
    for flag in flags[1:]:
        expected = f"option '{flag}': changes nothing, the kernels need no BLAS library\n"
        assert (expected in done.stdout) == flag.startswith("--")
    filename = names_file.read_text().split("\n")[0]
    assert "tf_ops" in filename
    assert os.path.exists(filename)


def test_each_operation_of_the_original_is_one_and_has_a_kernel():
    known = kernels.library().kernels
    assert set(compile_native_op._KERNEL_OF_OP.values()) <= set(known)
    for name in compile_native_op._KERNEL_OF_OP:
        assert hasattr(native_op, name)


def test_wrong_kernels(tool, monkeypatch, tmp_path):
    kernels.library("plain")
    assert tool("compile_native_op", "--native_op", "lstn", "--verbosity", 1)[2].startswith(
        "error: option '--native_op': there is no kernel 'lstn'.\n  Did you mean 'lstm'"
    )
    monkeypatch.setenv("RETURNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "PREBUILT", tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    status, _, err = tool("compile_native_op", "--verbosity", 1)
    assert (status, err) == (1, "error: there is no compiler: none of g++, clang++, c++ is installed.\n")
