"""The task `serve`, from the command line to the end by a signal, and the same from Python."""

import json
import os
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import returnn.frontend as rf
from returnn.config import Config, set_global_config
from returnn.engine.run.loaded_model import load_model
from returnn.log import log
from returnn.serve import task as serve_task
from returnn.tasks import TASKS
from returnn.tf.engine.model import Model
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError, UserError
from tests.engine.frontend import small_model
from tests.patience import PATIENCE_S
from tests.serve.asking import ask
from tests.tf.engine import test_tasks

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT_S = PATIENCE_S
CONFIG = """#!rnn.py
from pathlib import Path
from tests.engine.frontend import small_model

globals().update(small_model.config(Path("."), task="serve", web_server_port=0, device="cpu").typed_dict)
allow_random_model_init = True
search_output_layer = "best"
log = ["stdout"]
log_verbosity = 3
"""


@pytest.fixture(autouse=True)
def backend():
    log.initialize(verbosity=[3])
    before = BackendEngine.selected_engine
    yield
    set_global_config(None)
    rf.select_backend_numpy()
    BackendEngine.selected_engine = before


def url_of(line):
    """:return: of the line that says where it is"""
    assert line.startswith("serve: http://localhost:"), line
    return line.split()[1]


def test_a_signal_ends_it(tmp_path):
    (tmp_path / "serve.config").write_text(CONFIG)
    env = {**os.environ, "PYTHONPATH": ROOT, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, os.path.join(ROOT, "rnn.py"), "serve.config"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, env=env, **options)
    watchdog = threading.Timer(LIMIT_S, process.kill)
    watchdog.start()
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("serve: "):
                break
        url = url_of(lines[-1])
        status, answer = ask(f"{url}/search", '{"input": [[0, 0, 0, 0, 0, 0, 0, 0, 1]]}')
        assert status == 200, answer
        assert answer["output"] in ("0", "1")
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait() == 0, "".join(lines) + rest
        assert "serve: ends: interrupted by SIGTERM after the last request. 1 input in 1 batch." in rest
        assert "Traceback" not in rest
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


class EndError(Exception):
    """Takes the place of a signal."""


def answers_of(model, monkeypatch, *requests):
    """:return: what `serve_model` answers to requests, which come from a thread"""
    answers, ends = [], threading.Event()

    def ask_all(url):
        answers.extend(ask(url + path, body) for path, body in requests)
        ends.set()

    class Interrupts:
        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return None

        def check(self, *, where):
            if ends.is_set():
                raise EndError

    def note(*texts, file=None):
        for text in texts:
            if text.startswith("serve: http"):
                threading.Thread(target=ask_all, args=[url_of(text)]).start()

    monkeypatch.setattr(serve_task, "Interrupts", Interrupts)
    monkeypatch.setattr(serve_task, "print", note, raising=False)
    with pytest.raises(EndError):
        serve_task.serve_model(model)
    return answers


def test_a_network_answers_what_it_decodes(tmp_path, monkeypatch):
    engine = test_tasks.engine_of(tmp_path, "serve", search=True, network=test_tasks.DECODER)
    engine.config.set("web_server_port", 0)
    frames = numpy.eye(9, dtype="float32")[[0, 3, 5]]
    expected = engine.search_single_seq(frames)
    model = Model(engine.config, engine=engine)
    body = json.dumps({"input": frames.tolist()})
    (status, answer), (wrong_status, wrong) = answers_of(
        model, monkeypatch, ("/search", body), ("/search", '{"input": [1, 2]}')
    )
    assert status == 200, answer
    assert [text for _, text in answer["output"]] == [text for _, text in expected]
    assert (wrong_status, wrong["error"].partition(",")[0]) == (400, "the input has the shape [2]")
    model.close()


def test_a_network_without_a_search_is_refused_at_the_start(tmp_path):
    network = {"output": {"class": "softmax", "from": "data", "target": "classes", "loss": "ce"}}
    engine = test_tasks.engine_of(tmp_path, "serve", search=True, network=network)
    model = Model(engine.config, engine=engine)
    with pytest.raises(ConfigError, match="and served with web_server_output = 'forward'"):
        model.prepare("search")
    model.close()


def test_forward_of_a_model_in_python(tmp_path, monkeypatch):
    made = small_model.config(tmp_path, web_server_output="forward", web_server_port=0, allow_random_model_init=True)
    made.set("task", "forward")
    model = model_of(made)
    frames = numpy.eye(9, dtype="float32")[[0, 3, 5]]
    ((status, answer),) = answers_of(model, monkeypatch, ("/forward", json.dumps({"input": frames.tolist()})))
    assert status == 200, answer
    numpy.testing.assert_allclose(answer["output"], model.forward([frames])[0], rtol=1e-5)


def model_of(config):
    set_global_config(config)
    BackendEngine.select_engine(config=config)
    return load_model(config)


@pytest.mark.parametrize("backend_name", ["torch", "tensorflow"])
def test_a_model_in_python_without_what_is_asked_for_is_refused_at_the_start(backend_name, tmp_path):
    options = {"backend": backend_name, "allow_random_model_init": True}
    model = model_of(small_model.config(tmp_path, task="search", search_output_layer="best", **options))
    model.prepare("search")
    frames = numpy.eye(9, dtype="float32")[[0, 3, 5]]
    assert len(model.decode([frames])) == 1  # after it has run on templates
    model.close()
    for wrong, said in (({"task": "search"}, "no hypotheses.*\n.*\n.* web_server_output = 'forward'"),
                        ({"task": "search", "search_output_layer": "bset"}, "no output 'bset'.\n  Did you mean 'best'"),
                        ({"task": "forward", "forward_output_layer": "bset"}, "no output 'bset'"),
                        ({"task": "search", "forward_step": None}, "'forward_step' is required for task")):  # fmt: skip
        model = model_of(small_model.config(tmp_path, **options, **wrong))
        with pytest.raises(ConfigError, match=said):
            model.prepare(wrong["task"])
        model.close()


def test_the_old_names_are_the_same_task():
    assert TASKS["server"].function == TASKS["search_server"].function == TASKS["serve"].function


def test_a_port_in_use_is_said_before_the_model_is_loaded(tmp_path):
    other = serve_task.ModelService(FakeModel(port=0)).http_service()
    with other, pytest.raises(UserError, match="options 'web_server_host' and 'web_server_port': cannot listen at"):
        serve_task.serve_model(FakeModel(port=other.server_port))


class FakeModel:
    def __init__(self, port):
        self.config = Config({"web_server_port": port})

    def prepare(self, what):
        raise AssertionError("loaded too early")
