"""Managers and contexts of `multiprocessing`, modules in C, and modules that are loaded again."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from returnn.config import Config
from returnn.util.hot_reload import ConfigHotReloader, hot_reload_config, should_use_hot_reloading
from returnn.util.multi_proc_non_daemonic_spawn import NonDaemonicSpawnContext
from returnn.util.py_ext_mod_compiler import PyExtModCompiler
from tests.compat.processes import for_children
from tests.patience import PATIENCE_S, is_running, wait_until

ROOT = Path(__file__).parents[3]


def run(code):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def test_a_manager_ends_when_the_process_that_made_it_is_killed():
    result = run(
        "import os, signal\n"
        "from returnn.util.multi_proc_manager_with_watchdog import create_manager\n"
        "if __name__ == '__main__':\n"
        "    manager = create_manager()\n"
        "    shared = manager.dict(a=1)\n"
        "    print(shared['a'], manager._process.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    value, pid = result.stdout.split()
    assert value == "1"
    wait_until(lambda: not is_running(pid))


def test_processes_are_no_daemons_and_begin_with_a_function():
    context = NonDaemonicSpawnContext(process_pre_init_func=for_children.pre_init)
    queue = multiprocessing.get_context("spawn").Queue()
    process = context.Process(target=for_children.answer, args=(for_children.Argument(), queue), daemon=True)
    process.daemon = True
    assert not process.daemon
    process.start()
    assert queue.get(timeout=PATIENCE_S) == (True, False)
    process.join()
    assert process.exitcode == 0
    process.close()


def test_processes_end_with_the_one_that_has_started_them():
    result = run(
        "from returnn.util.multi_proc_non_daemonic_spawn import NonDaemonicSpawnContext\n"
        "from tests.compat.processes import for_children\n"
        "if __name__ == '__main__':\n"
        "    process = NonDaemonicSpawnContext().Process(target=for_children.sleep)\n"
        "    process.start()\n"
        "    print(process.pid)\n"
    )
    assert result.returncode == 0, result.stderr
    wait_until(lambda: not is_running(int(result.stdout)))


def test_a_module_in_c(tmp_path, monkeypatch):
    monkeypatch.setenv("RETURNN_CACHE_DIR", str(tmp_path))
    code = """
        #include <Python.h>
        static PyObject *twice(PyObject *self, PyObject *x) { return PyNumber_Add(x, x); }
        static PyMethodDef methods[] = {{"twice", twice, METH_O, ""}, {NULL, NULL, 0, NULL}};
        static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "my_twice", NULL, -1, methods};
        PyMODINIT_FUNC PyInit_my_twice(void) { return PyModule_Create(&module); }
    """
    compiler = PyExtModCompiler(base_name="my_twice", code=code, is_cpp=False)
    module = compiler.load_py_module()
    assert module.twice("ab") == "abab"
    assert compiler.load_py_module() is module


def test_modules_of_a_config_are_loaded_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    inner, outer, config_file = tmp_path / "my_inner.py", tmp_path / "my_outer.py", tmp_path / "my.config"
    inner.write_text("size = 3\n")
    outer.write_text("import my_inner\nsize = my_inner.size + 1\n")
    config_file.write_text("#!rnn.py\nimport my_outer\nbatch_size = my_outer.size\n")
    config = Config()
    config.load_file(str(config_file))
    assert config.typed_dict["batch_size"] == 4
    reloader = ConfigHotReloader(config)
    assert {"my_inner", "my_outer"} <= set(reloader.modules)
    assert "numpy" not in reloader.modules
    assert "returnn.config" not in reloader.modules
    assert not reloader.any_module_changed()
    inner.write_text("size = 50\n")
    answers = iter(["what", "reload", "continue"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    assert reloader.user_interaction() == "continue"
    assert config.typed_dict["batch_size"] == 51
    assert not reloader.any_module_changed()
    config_file.write_text("#!rnn.py\nbatch_size = 7\n")
    hot_reload_config(config)
    assert config.typed_dict["batch_size"] == 7


@pytest.mark.parametrize(("value", "expected"), [("0", False), ("1", True)])
def test_the_environment_says_whether_to_reload(monkeypatch, value, expected):
    monkeypatch.setenv("RETURNN_USE_HOT_RELOADING", value)
    assert should_use_hot_reloading() is expected
