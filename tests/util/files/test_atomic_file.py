import contextlib
import os
import subprocess
import sys

import pytest

from returnn.util.errors import UserError
from returnn.util.files.atomic_file import check_writable, open_atomic, write_atomic


def test_write_text_and_bytes(tmp_path):
    write_atomic(tmp_path / "a", "text \u00e4")
    write_atomic(tmp_path / "b", b"\x00\xff")
    assert (tmp_path / "a").read_text(encoding="utf8") == "text \u00e4"
    assert (tmp_path / "b").read_bytes() == b"\x00\xff"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with open_atomic(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(TypeError), open_atomic(path) as file:
        print("new", 1 + "", file=file)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_permissions_and_links_stay(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)
    (tmp_path / "link").symlink_to("a")
    write_atomic(tmp_path / "link", "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    write_atomic(tmp_path / "fresh", "")
    (tmp_path / "ordinary").write_text("")
    assert (tmp_path / "fresh").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_fifo_stays_a_fifo(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    check_writable(path)
    write_atomic(path, "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert path.is_fifo()
    assert os.listdir(tmp_path) == ["fifo"]


def test_devices_stay_as_they_are():
    before = os.stat("/dev/null")
    check_writable("/dev/null")
    write_atomic("/dev/null", "text")
    assert os.stat("/dev/null").st_rdev == before.st_rdev
    assert os.stat("/dev/null").st_ino == before.st_ino


@pytest.mark.parametrize("to_file", [False, True])
def test_output_of_the_process_is_no_file_to_replace(to_file, tmp_path):
    code = (
        "from returnn.util.files.atomic_file import write_atomic; import sys; print('before', flush=True);"
        "write_atomic('/dev/stdout', 'text\\n'); print('after')"
    )
    with open(tmp_path / "out", "w") if to_file else contextlib.nullcontext(subprocess.PIPE) as out:
        done = subprocess.run([sys.executable, "-c", code], stdout=out, text=True, check=True)
    assert ((tmp_path / "out").read_text() if to_file else done.stdout) == "before\ntext\nafter\n"


KILLED = """
import os, signal, sys
from returnn.util.files.atomic_file import open_atomic
with open_atomic(sys.argv[1]) as file:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_leaves_is_removed(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert path.read_text() == "old"
    assert len(os.listdir(tmp_path)) == 2
    write_atomic(path, "new")
    assert os.listdir(tmp_path) == ["a"]


def test_what_another_process_is_writing_is_not_removed(tmp_path):
    path = tmp_path / "a"
    code = "import sys; from returnn.util.files.atomic_file import write_atomic; write_atomic(sys.argv[1], 'theirs')"
    with open_atomic(path) as file:
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
        assert path.read_text() == "theirs"
        file.write("ours")
    assert path.read_text() == "ours"
    assert os.listdir(tmp_path) == ["a"]


def test_files_of_others_stay(tmp_path):
    names = [".a.b.12345678.tmp", ".a.1234.tmp", "a.12345678.tmp", ".a.12345678"]
    for name in names:
        (tmp_path / name).write_text("")
    write_atomic(tmp_path / "a", "text")
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "a"])


def test_errors_name_the_file(tmp_path):
    with pytest.raises(UserError, match=r"cannot write the file '.*/missing/a': there is no folder '.*/missing'\."):
        write_atomic(tmp_path / "missing" / "a", "")


def test_full_disk(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with pytest.raises(UserError, match="No space left on device"), open_atomic(tmp_path / "full") as file:
        _write_to_full_disk(file)
    assert not os.path.exists(tmp_path / "full")


def _write_to_full_disk(file):
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file.fileno())
    os.close(full)
    file.write("x")


def test_errors_of_other_files_stay_what_they_are(tmp_path):
    with pytest.raises(FileNotFoundError), open_atomic(tmp_path / "a"):
        open(tmp_path / "b")  # noqa: SIM115 (it fails)
