import os
from pathlib import Path

import pytest

from returnn.util import native_code_compiler
from returnn.util.cuda_env import CudaEnv
from returnn.util.errors import ConfigError, UserError
from returnn.util.native_code_compiler import NativeCodeCompiler

CODE = 'extern "C" int answer() { return VALUE; }\n'


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RETURNN_CACHE_DIR", str(tmp_path / "cache"))


def compiler(value=42, **kwargs):
    return NativeCodeCompiler("answer", code=CODE, c_macro_defines={"VALUE": value, "UNUSED": None}, **kwargs)


def test_compiled_code_runs():
    assert compiler(42).load_lib_ctypes().answer() == 42
    assert compiler(43).load_lib_ctypes().answer() == 43


def test_c_code_runs():
    lib = NativeCodeCompiler("twice", code="int twice(int x) { return 2 * x; }", is_cpp=False).load_lib_ctypes()
    assert lib.twice(4) == 8


def test_it_is_compiled_once(monkeypatch):
    filename = compiler().get_lib_filename()
    monkeypatch.setattr(native_code_compiler.subprocess, "run", None)
    assert compiler().get_lib_filename() == filename


def test_it_is_compiled_again_when_an_included_file_changes(tmp_path):
    header = tmp_path / "value.h"
    names = []
    for value in (1, 2):
        header.write_text(f"#define NUMBER {value}\n", encoding="utf8")
        code = '#include "value.h"\nextern "C" int answer() { return NUMBER; }\n'
        options = {"include_paths": [str(tmp_path)], "include_deps": [str(header)]}
        names.append(NativeCodeCompiler("number", code=code, **options).get_lib_filename())
        static = NativeCodeCompiler("number", code=code, static_version_name="static", **options)
        assert os.path.dirname(static.get_lib_filename()).endswith("static")
    assert names[0] != names[1]


def test_older_versions_are_deleted():
    old = compiler(1).get_lib_filename()
    new = compiler(2).get_lib_filename()
    compiler(2, should_cleanup_old_mydir=True)
    assert (os.path.exists(old), os.path.exists(new)) == (False, True)


def test_unused_libraries_are_deleted():
    filename = compiler(1).get_lib_filename()
    for path in (filename, os.path.dirname(filename)):
        os.utime(path, (0, 0))
    compiler(2)
    assert not os.path.exists(filename)


def test_errors_of_the_compiler_are_told():
    with pytest.raises(UserError) as exc_info:
        NativeCodeCompiler("wrong", code="int f() { return no_such_name; }").get_lib_filename()
    message = str(exc_info.value)
    assert message.startswith("native code 'wrong' cannot be compiled: wrong.cc:1:18: error:")
    assert "no_such_name" in message
    assert len(message.splitlines()) == 2


def test_missing_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CXX", "my-compiler")
    with pytest.raises(UserError, match="none of my-compiler, g\\+\\+, clang\\+\\+, c\\+\\+ is installed"):
        compiler()


def test_where_cuda_is(tmp_path, monkeypatch):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.99'\n", encoding="utf8")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    cuda = CudaEnv()
    assert cuda.is_available()
    assert cuda.get_compiler_bin() == str(nvcc)
    assert cuda.get_cuda_version() == (12, 4)
    assert cuda.get_max_compute_capability() == 9.0


def planted(folder, mode):
    """Somebody else has put a library where ours would be."""
    filename = compiler(1)._lib_filename or os.path.join(compiler(1).cache_dir, "answer.so")
    os.makedirs(os.path.dirname(filename), mode=0o700)
    with open(filename, "wb") as file:
        file.write(b"planted")
    os.chmod(folder, mode)
    return filename


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_library_in_a_folder_where_others_may_write_is_not_loaded(mode, tmp_path):
    filename = planted(tmp_path / "cache", mode)
    with pytest.raises(ConfigError) as info:
        compiler(1).load_lib_ctypes()
    assert str(info.value) == (
        f"'{tmp_path}/cache' can be written by others (mode {mode:04o}), so code that is there is not run.\n"
        "  Delete it, or set the environment variable RETURNN_CACHE_DIR to a folder that is yours alone."
    )
    assert Path(filename).read_bytes() == b"planted"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_library_in_a_folder_of_somebody_else_is_not_loaded(tmp_path):
    planted(tmp_path / "cache", 0o755)
    os.chown(tmp_path / "cache", 12345, -1)
    with pytest.raises(ConfigError, match="cache' belongs to another user, with the id 12345, so code"):
        compiler(1).load_lib_ctypes()


def test_link_to_another_folder_is_not_followed(tmp_path):
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "other")
    with pytest.raises(ConfigError, match="cache' is not a folder, so code"):
        compiler(1).load_lib_ctypes()


def test_folders_are_private(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o755)
    folder = os.path.dirname(compiler(1).get_lib_filename())
    while folder != str(tmp_path):
        assert os.stat(folder).st_mode & 0o777 == 0o700
        folder = os.path.dirname(folder)
