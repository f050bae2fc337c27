"""The command that runs all of this. It is tested without a GPU, too."""

import sys

from tests.gpu import __main__ as report


def test_output_of_all_commands_is_in_the_report(tmp_path, capsys):
    path = tmp_path / "report"
    commands = {
        "good": [sys.executable, "-c", "print('hello')"],
        "bad": [sys.executable, "-c", "print('no'); raise SystemExit(3)"],
        "missing": ["there-is-no-such-command"],
    }
    with path.open("w", encoding="utf8") as file:
        assert [report.run(title, command, file) for title, command in commands.items()] == [True, False, False]
    text = path.read_text("utf8")
    assert text == capsys.readouterr().out
    assert "== good: " in text
    assert "\nhello\n" in text
    assert "No such file or directory: 'there-is-no-such-command'" in text


def test_commands(monkeypatch):
    monkeypatch.setattr(report.shutil, "which", lambda name: f"/bin/{name}")
    commands = report.steps(full=True, tune=True)
    assert commands["benchmark"][-1] == "--full"
    assert list(commands)[-2:] == ["tuning", "benchmark"]
    assert "sanitizer: racecheck" in commands
    monkeypatch.setattr(report.shutil, "which", lambda name: None)
    assert list(report.steps(full=False, tune=False)) == ["GPUs", "PyTorch", "compiler", "tests", "benchmark"]
