"""`returnn view`: what is served, and the exported page."""

import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

import returnn.__main__ as rnn
from returnn.serve.http_service import HttpService, Limits
from returnn.view.command import Viewer
from returnn.view.page import page
from tests.serve.asking import LIMIT_S, ask, ask_bytes
from tests.view.files import END, EPOCH, PNG, SEARCH, START, write_record

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def runs(tmp_path):
    for name, size in (("one", 5), ("two", 7)):
        start = {**START, "options": {"batch_size": size, "num_epochs": 2}}
        bad = {
            **SEARCH,
            "samples": [{"tag": "</script><script>alert(1)</script>", "hypothesis": "a", "reference": "b"}],
        }
        write_record(tmp_path / name / "net.run.jsonl", start, EPOCH, bad, END)
        (tmp_path / name / "attention").mkdir()
        (tmp_path / name / "attention" / "seq.png").write_bytes(PNG + name.encode())
    (tmp_path / "secret.png").write_bytes(PNG)
    return tmp_path


@pytest.fixture
def url(runs, monkeypatch):
    monkeypatch.setattr("returnn.view.command._SECONDS_BETWEEN_READS", -1.0)
    viewer = Viewer([str(runs / "one"), str(runs)])
    service = HttpService("localhost", 0, viewer.routes(), limits=Limits(), option="x")
    with service.running():
        yield service.url


def data_of(text):
    """:return: what an exported page has in it"""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL)
    return json.loads(found)


def test_served_data(url, runs):
    status, data = ask(f"{url}/data.json")
    assert status == 200
    assert [run["name"] for run in data["runs"]] == ["one", "two"]
    assert data["differences"] == [{"name": "batch_size", "values": ["5", "7"]}]
    write_record(runs / "three" / "net.run.jsonl", START)
    with open(runs / "one" / "net.run.jsonl", "a") as file:
        file.write(json.dumps({**EPOCH, "epoch": 2, "time": 1100.0}) + "\n")
    data = ask(f"{url}/data.json")[1]
    assert [run["name"] for run in data["runs"]] == ["one", "three", "two"]
    assert data["runs"][0]["epochs"]["epoch"] == [1, 2]


def test_pictures_are_those_of_the_runs_and_nothing_else(url, runs):
    data = ask(f"{url}/data.json")[1]
    for run in data["runs"]:
        (picture,) = run["pictures"]
        assert ask_bytes(f"{url}/picture?id={picture['id']}") == (200, PNG + run["name"].encode())
    for key in ("../secret.png", "%2e%2e/secret.png", str(runs / "secret.png"), "", "0"):
        status, answer = ask(f"{url}/picture?id={key}")
        assert status == 404
        assert "there is no picture" in answer["error"]
    assert ask(f"{url}/../../etc/passwd")[0] == 404
    assert ask(f"{url}/secret.png")[0] == 404
    (runs / "one" / "attention" / "seq.png").unlink()
    assert ask(f"{url}/picture?id={data['runs'][0]['pictures'][0]['id']}")[0] == 404


def test_several_clients_at_once(url):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(f"{url}/data.json"))) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [status for status, _ in answers] == [200] * 10
    assert all(answer == answers[0] for answer in answers)


def test_an_upload_is_refused(url):
    assert ask(f"{url}/data.json", b"x" * 100_000)[0] == 405


def test_served_page(url):
    status, text = ask_bytes(url + "/")
    assert status == 200
    assert text.decode("utf8") == page()
    assert data_of(page()) is None


def test_the_exported_page_has_all_in_it(runs, capsys):
    assert rnn.main(["rnn.py", "view", str(runs), "--export", str(runs / "page.html")]) == 0
    assert re.search(r"wrote '.*page.html': 2 runs, 0.\d MB", capsys.readouterr().out)
    text = (runs / "page.html").read_text("utf8")
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    assert "The MIT License" in text
    assert "{{page" not in text
    data = data_of(text)
    assert [run["folder"] for run in data["runs"]] == ["one", "two"]
    assert data["runs"][0]["pictures"][0]["content"].startswith("data:image/png;base64,iVBOR")
    assert data["runs"][0]["searches"][0]["samples"][0]["tag"] == "</script><script>alert(1)</script>"
    assert str(runs) not in json.dumps([{**run, "problems": []} for run in data["runs"]])


def test_what_is_not_possible(tmp_path, capsys):
    assert rnn.main(["rnn.py", "view", str(tmp_path / "gone")]) == 1
    assert "error: there is no folder '" in capsys.readouterr().err
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "net.run.jsonl").write_text('{"kind": "start"}\n')
    (tmp_path / "my.config").write_text("#!rnn.py\n")
    for given, said in (("run/net", "There is a run in the folder"), ("my.config", "'model'"), ("rnu", "'run'?")):
        assert rnn.main(["rnn.py", "view", str(tmp_path / given)]) == 1
        assert said in capsys.readouterr().err.replace(str(tmp_path) + "/", "")
    assert rnn.main(["rnn.py", "view", str(tmp_path), "--port", "99999"]) == 1
    assert "options '--host' and '--port': cannot listen at 'localhost', port 99999" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert rnn.main(["rnn.py", "view", str(tmp_path), "--export", str(tmp_path / "file" / "x.html")]) == 1
    assert "error: " in capsys.readouterr().err


def test_folders_without_a_run_are_said(tmp_path, capsys):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert rnn.main(["rnn.py", "view", str(empty), "--export", str(tmp_path / "page.html")]) == 0
    captured = capsys.readouterr()
    assert f"in the folder {str(empty)!r}, there is no run yet." in captured.out + captured.err


def test_a_signal_ends_it(runs):
    command = [sys.executable, "-m", "returnn", "view", str(runs), "--port", "0"]
    env = {**os.environ, "PYTHONPATH": ROOT}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watchdog = threading.Timer(2 * LIMIT_S, process.kill)
    watchdog.start()
    try:
        line = process.stdout.readline()
        (url,) = re.findall(r"^2 runs: (http://localhost:\d+) \(Ctrl-C ends it\)$", line)
        assert len(ask(f"{url}/data.json")[1]["runs"]) == 2
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "ends\n"
        assert process.wait() == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
