"""Libraries, processes, modules, files about a run."""

import os
import subprocess
import sys

import h5py
import numpy
import pytest

from returnn.config import Config
from returnn.util import basic
from returnn.util.errors import UserError
from returnn.util.onnx_export import onnx_export


def test_config_of_the_linker(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.conf").write_text("/a # comment\n\n/b\n", encoding="utf8")
    (tmp_path / "ld.so.conf").write_text("include more/*.conf\n/c\n", encoding="utf8")
    assert basic.parse_ld_conf_file(str(tmp_path / "ld.so.conf")) == ["/a", "/b", "/c"]


def test_libraries(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}:/other")
    assert basic.get_ld_paths()[:2] == [str(tmp_path), "/other"]
    assert basic.find_lib("my_own") is None
    (tmp_path / basic.make_dll_name("my_own")).touch()
    assert basic.find_lib("my_own") == str(tmp_path / "libmy_own.so")
    files = basic.collect_proc_maps_exec_files()
    assert any("libc" in name for name in files)
    libc = next(name for name in files if "libc.so" in name or "libc-" in name)
    assert basic.find_sym_in_exec(libc, "malloc")
    assert basic.find_sym_in_exec(libc, "no_such_function") is None
    assert basic.find_libcudart_from_runtime() is None or "cudart" in basic.find_libcudart_from_runtime()
    assert all(os.path.exists(path) for path in basic.find_sgemm_libs_from_runtime())


def test_open_files(tmp_path):
    code = (
        "import os; from returnn.util.basic import close_all_fds_except, is_valid_fd; "
        f"fd = os.open({str(tmp_path / 'x')!r}, os.O_CREAT | os.O_RDWR); assert is_valid_fd(fd); "
        "close_all_fds_except({0, 1, 2}); assert not is_valid_fd(fd); assert is_valid_fd(1); print('done')"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "done\n"


def test_a_process_runs_anew_with_the_same_arguments(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "from returnn.util.basic import maybe_restart_returnn_with_atfork_patch, get_patch_atfork_lib\n"
        "print(sys.argv[1], 'patch_atfork' in os.environ.get('LD_PRELOAD', ''))\n"
        "maybe_restart_returnn_with_atfork_patch()\n",
        encoding="utf8",
    )
    env = {**os.environ, "RETURNN_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.getcwd()}
    out = subprocess.run([sys.executable, str(script), "arg"], capture_output=True, text=True, check=True, env=env)
    assert out.stdout == "arg False\narg True\n"


def test_programs_with_a_prefix(tmp_path):
    prefix = tmp_path / "prefix"
    prefix.write_text('#!/bin/sh\necho "prefix $@"\n', encoding="utf8")
    prefix.chmod(0o755)
    code = (
        "import os; from returnn.util.basic import overwrite_os_exec; "
        f"overwrite_os_exec([{str(prefix)!r}]); os.execv('/bin/echo', ['echo', 'a', 'b'])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "prefix /bin/echo a b\n"


def test_distribution():
    assert isinstance(basic.get_lsb_release(), dict)
    assert basic.get_ubuntu_major_version() is None or basic.get_ubuntu_major_version() >= 4
    execv = os.execv
    basic.auto_prefix_os_exec_prefix_ubuntu(["/no/such/file"])
    assert os.execv is execv


def test_modules_by_file_and_by_name(tmp_path):
    (tmp_path / "my_generic_module.py").write_text("x = 5\n", encoding="utf8")
    (tmp_path / "my_generic_package").mkdir()
    (tmp_path / "my_generic_package" / "__init__.py").write_text("y = 6\n", encoding="utf8")
    assert basic.generic_import_module(str(tmp_path / "my_generic_module.py")).x == 5
    assert basic.generic_import_module(str(tmp_path / "my_generic_package")).y == 6
    assert basic.generic_import_module("returnn.util.basic") is basic
    with pytest.raises(UserError, match=r"there is no Python file '/no/such\.py'"):
        basic.generic_import_module("/no/such.py")
    with pytest.raises(UserError, match="there is no module 'no_such_module'"):
        basic.generic_import_module("no_such_module")


def test_own_modules_are_reported(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_reported_module.py").write_text("", encoding="utf8")
    with basic.ReportImportedDevModules(description="config"):
        monkeypatch.syspath_prepend(tmp_path)
        basic.generic_import_module("my_reported_module")
    assert capsys.readouterr().out.startswith(f"config: imported from {str(tmp_path)!r}, version ")


def test_information_about_a_run(tmp_path, monkeypatch):
    config = Config()
    basic.log_runtime_info_to_dir(str(tmp_path / "log"), config)
    (path,) = (tmp_path / "log").iterdir()
    text = path.read_text(encoding="utf8")
    assert f"pid: {os.getpid()}\n" in text
    assert basic.get_utc_start_time_filename_part() in path.name
    config.set("use_horovod", True)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert not basic.should_write_to_disk(config)
    basic.log_runtime_info_to_dir(str(tmp_path / "other"), config)
    assert not (tmp_path / "other").exists()
    assert basic.get_model_filename_postfix() in (".index", ".pt")


def test_hdf5(tmp_path):
    filename = str(tmp_path / "x.hdf")
    with h5py.File(filename, "w") as file:
        file.attrs["numSeqs"] = 3
        file.create_group("sizes").attrs["data"] = 7
        file["inputs"] = numpy.zeros((4, 5))
        basic.hdf5_strings(file, "tags", ["a", "bc"])
        basic.hdf5_strings(file, "tags", ["ä"])
        assert [tag.decode() for tag in file["tags"]] == ["ä"]
    assert basic.hdf5_dimension(filename, "numSeqs") == 3
    assert basic.hdf5_dimension(filename, "sizes/data") == 7
    assert basic.hdf5_group(filename, "sizes") == {"data": 7}
    assert basic.hdf5_shape(filename, "inputs") == (4, 5)


def test_exceptions_are_ignored(capsys):
    def fail():
        local = numpy.zeros(10)
        raise ValueError(f"size {local.size}")

    basic.try_and_ignore_exception(fail)
    assert "ValueError: size 10" in capsys.readouterr().out
    with pytest.raises(ValueError, match="size 10") as exc_info:
        fail()
    basic.traceback_clear_frames(exc_info.tb)
    assert "local" not in exc_info.traceback[-1].frame.f_locals


def test_printing_is_cut(capsys):
    basic.pretty_print([1, 2, 3])
    basic.pretty_print("x" * 20, limit=10)
    basic.set_pretty_print_default_limit(5)
    basic.pretty_print("x" * 20)
    basic.set_pretty_print_default_limit(None)
    assert capsys.readouterr().out == "[1, 2, 3]\n'xxxxxx...\n'x...\n"


def test_infinity_in_an_export():
    assert basic.get_global_inf_value() == float("inf")
    with onnx_export():
        assert basic.is_onnx_export_global()
        assert numpy.isfinite(numpy.float32(basic.get_global_inf_value()))
    assert not basic.is_onnx_export_global()


class _Tensor:
    def __init__(self, *dims):
        self.dims = dims


def test_one_source_needs_all_dims():
    a, b = _Tensor("x"), _Tensor("y")
    basic.validate_broadcast_all_sources(True, [a, b], ["x", "y"])
    basic.validate_broadcast_all_sources(False, [a, _Tensor("y", "x")], ["x", "y"])
    with pytest.raises(basic.BehaviorVersion.RequirementNotSatisfied, match="no input has all dims"):
        basic.validate_broadcast_all_sources(False, [a, b], ["x", "y"])
