from __future__ import annotations

import pytest

from returnn.util.errors import UserError
from returnn.util.files import cache_manager
from returnn.util.files.cache_manager import cf


@pytest.fixture
def bin_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path) + ":/bin:/usr/bin")
    monkeypatch.setattr(cache_manager, "_local_files", {})
    return tmp_path


def install(bin_dir, script):
    path = bin_dir / "cf"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def test_without_the_command_it_is_the_file_itself(bin_dir):
    assert cf("/x/y") == "/x/y"


def test_the_command_is_asked_once_for_each_file(bin_dir):
    install(bin_dir, f"echo asked >> {bin_dir}/log\necho /local$1")
    assert [cf("/x"), cf("/x"), cf("/y")] == ["/local/x", "/local/x", "/local/y"]
    assert (bin_dir / "log").read_text().split() == ["asked", "asked"]


def test_failure_is_told_with_its_reason(bin_dir):
    install(bin_dir, "echo details; echo no such file >&2; exit 1")
    with pytest.raises(UserError, match="cache manager failed: cf '/x': no such file"):
        cf("/x")
