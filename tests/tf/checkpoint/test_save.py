import os
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy
import pytest
import tensorflow as tf

from returnn.tf.checkpoint import save as save_module
from returnn.tf.checkpoint.files import CheckpointError
from returnn.tf.checkpoint.save import CheckpointWriter, ValuesWriter, finish_interrupted_saves
from returnn.tf.checkpoint.verify import verify_checkpoint
from tests.tf.checkpoint.model import content, number_in, opened


@pytest.fixture(scope="module")
def model():
    with opened() as model:
        yield model


def test_saver_of_tensorflow_reads_what_is_written(model, tmp_path):
    model.save(tmp_path / "m.001", 3.0)
    model.fill(0.0)
    tf.compat.v1.train.Saver(list(model.variables.values())).restore(model.session, str(tmp_path / "m.001"))
    for value in model.values().values():
        numpy.testing.assert_array_equal(value, 3.0)


def test_names_and_files(model, tmp_path):
    checkpoint = model.save(tmp_path / "new" / "folder" / "m.001")
    assert set(content(checkpoint)) == set(model.variables)
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["m.001.data-00000-of-00001", "m.001.index"]


def test_relative_name(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.save("m.001", 2.0)
    assert number_in("./m.001") == 2.0


def test_replaces_a_checkpoint_with_all_its_files(model, tmp_path):
    model.save(tmp_path / "m.001", 1.0)
    (tmp_path / "m.001.meta").write_text("old")
    model.save(tmp_path / "m.001", 2.0)
    assert number_in(tmp_path / "m.001") == 2.0
    assert sorted(os.listdir(tmp_path)) == ["m.001.data-00000-of-00001", "m.001.index"]


class Killed(BaseException):
    """Ends the process as far as the code is concerned: nothing catches it."""


FILE_OPERATIONS = ("mkdir", "rename", "replace", "remove", "rmdir", "fsync", "listdir")


def kill_at(monkeypatch, number):
    """The process ends before the operation of that number."""
    count = 0

    def counted(operation):
        def run(*args, **kwargs):
            nonlocal count
            count += 1
            if count == number:
                raise Killed
            return operation(*args, **kwargs)

        return run

    for name in FILE_OPERATIONS:
        monkeypatch.setattr(save_module.os, name, counted(getattr(os, name)))


def test_end_of_the_process_at_any_file_operation_leaves_a_complete_checkpoint(model, tmp_path, monkeypatch):
    checkpoint = str(tmp_path / "m.001")
    interrupted = True
    number = 0
    outcomes = []
    while interrupted:
        number += 1
        shutil.rmtree(tmp_path)
        model.save(checkpoint, 1.0)
        interrupted = False
        with monkeypatch.context() as patch:
            kill_at(patch, number)
            try:
                model.save(checkpoint, 2.0)
            except Killed:
                interrupted = True
        finish_interrupted_saves(str(tmp_path / "m"))
        assert sorted(os.listdir(tmp_path)) == ["m.001.data-00000-of-00001", "m.001.index"], number
        outcomes.append(number_in(checkpoint))
    assert number > 10
    assert outcomes == sorted(outcomes)  # first the old one, from some operation on the new one
    assert set(outcomes) == {1.0, 2.0}


def test_end_of_the_process_while_finishing(model, tmp_path, monkeypatch):
    checkpoint = str(tmp_path / "m.001")
    model.save(checkpoint, 2.0)
    os.mkdir(f"{checkpoint}.ready")
    for entry in ("m.001.index", "m.001.data-00000-of-00001"):
        os.rename(tmp_path / entry, tmp_path / "m.001.ready" / entry)
    for number in range(1, 12):
        with monkeypatch.context() as patch:
            kill_at(patch, number)
            try:
                finish_interrupted_saves(str(tmp_path / "m"))
            except Killed:
                continue
    assert number_in(checkpoint) == 2.0
    assert sorted(os.listdir(tmp_path)) == ["m.001.data-00000-of-00001", "m.001.index"]


def test_finishing_tells_what_it_did_and_leaves_other_models_alone(model, tmp_path):
    for name in ("m.001.saving", "m.pretrain.002.saving", "m.003.broken.saving", "other.001.saving", "m.x.saving"):
        os.mkdir(tmp_path / name)
    os.mkdir(tmp_path / "m.004.ready")
    model.save(tmp_path / "m.004.ready" / "m.004", 4.0)
    folder = f"{tmp_path}/"
    assert finish_interrupted_saves(f"{folder}m") == [
        f"Deleted '{folder}m.001.saving', a checkpoint that was being written when the process ended.",
        f"Deleted '{folder}m.003.broken.saving', a checkpoint that was being written when the process ended.",
        f"Completed checkpoint '{folder}m.004', which was written when the process ended.",
        f"Deleted '{folder}m.pretrain.002.saving', a checkpoint that was being written when the process ended.",
    ]
    assert number_in(tmp_path / "m.004") == 4.0
    assert {"other.001.saving", "m.x.saving"} <= set(os.listdir(tmp_path))
    assert finish_interrupted_saves(f"{folder}missing/m") == []


CHILD = """
    import os, resource, signal, sys, threading
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from returnn.tf.checkpoint.files import CheckpointError
    from returnn.tf.checkpoint.save import CheckpointWriter
    from tests.tf.checkpoint.model import Model
    folder = sys.argv[1]
    model = Model({"W": (4000, 4000)})
"""


def run_child(code, folder):
    script = textwrap.dedent(CHILD) + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False)


def test_kill_while_the_values_are_written(tmp_path):
    result = run_child(
        """
        model.save(f"{folder}/m.001", 1.0)

        def kill():
            saving = f"{folder}/m.002.saving"
            while not (os.path.isdir(saving) and any(e.stat().st_size for e in os.scandir(saving) if e.is_file())):
                pass
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        model.save(f"{folder}/m.002", 2.0)
        signal.pause()
        """,
        tmp_path,
    )
    assert result.returncode == -signal.SIGKILL, result.stderr
    finish_interrupted_saves(str(tmp_path / "m"))
    left = {entry.split(".")[1] for entry in os.listdir(tmp_path)}
    assert left in ({"001"}, {"001", "002"})  # the second if it was written before the kill
    for epoch in left:
        verify_checkpoint(str(tmp_path / f"m.{epoch}"))
    assert not [entry for entry in os.listdir(tmp_path) if "saving" in entry or "ready" in entry or "temp" in entry]


def test_full_disk_and_read_only_folder_keep_the_old_checkpoint_and_say_so(tmp_path):
    tmp_path.chmod(0o777)
    result = run_child(
        """
        model.save(f"{folder}/m.001", 1.0)

        def attempt():
            try:
                model.save(f"{folder}/m.001", 2.0)
            except CheckpointError as exc:
                print(exc)

        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, resource.RLIM_INFINITY))  # as a disk that gets full
        attempt()
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.chmod(folder, 0o555)
        if os.geteuid() == 0:
            os.seteuid(65534)  # root may write anywhere
        attempt()
        """,
        tmp_path,
    )
    assert result.returncode == 0, result.stderr
    tmp_path.chmod(0o777)
    checkpoint = f"{tmp_path}/m.001"
    lines = result.stdout.splitlines()
    assert len(lines) == 4, result.stdout
    assert lines[0].startswith(f"checkpoint '{checkpoint}' cannot be written: ")
    assert "too large" in lines[0]
    assert lines[2].startswith(f"checkpoint '{checkpoint}' cannot be written: Permission denied: '")
    assert lines[1] == lines[3] == "  Checkpoints that are there are as they were."
    assert number_in(checkpoint) == 1.0
    assert sorted(os.listdir(tmp_path)) == ["m.001.data-00000-of-00001", "m.001.index"]


def test_folder_that_is_a_file(model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError) as error:
        model.save(tmp_path / "file" / "m.001")
    assert str(error.value).startswith(f"checkpoint '{tmp_path}/file/m.001' cannot be written: File exists: ")


def test_uninitialized_variable(tmp_path):
    with opened() as model:
        session = tf.compat.v1.Session(graph=model.graph)
        with session, pytest.raises(CheckpointError, match=r"cannot be written: Could not find variable \w+/\w+\.\n"):
            model.writer.save(session, str(tmp_path / "m.001"))
    assert os.listdir(tmp_path) == []


# What TensorFlow says when the disk is full; its hint about memory has nothing to do with it.
DISK_IS_FULL = """Graph execution error:

Detected at node 'save/SaveV2' defined at (most recent call last):
    File "train.py", line 6, in <module>
Node: 'save/SaveV2'
net.001.saving/net.001.data-00000-of-00001.tempstate11997094598898194293; No space left on device
\t [[{{node save/SaveV2}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to \
RunOptions for current allocation info. This isn't available when running in Eager mode.

Original stack trace for 'save/SaveV2':
  File "train.py", line 6, in <module>
"""


def test_full_disk_is_said_without_a_hint_about_memory(tmp_path):
    class FullDisk:
        def run(self, fetches, feed=None):
            raise tf.errors.ResourceExhaustedError(None, None, DISK_IS_FULL)

    with tf.Graph().as_default():
        writer = CheckpointWriter({"x": tf.compat.v1.get_variable("x", shape=[2])})
    with pytest.raises(CheckpointError) as error:
        writer.save(FullDisk(), str(tmp_path / "net.001"))
    assert str(error.value).splitlines() == [
        f"checkpoint '{tmp_path}/net.001' cannot be written: No space left on device.",
        "  Checkpoints that are there are as they were.",
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "bool", "uint8", "string"])
def test_values_outside_of_a_session(dtype, tmp_path):
    value = numpy.array([[1, 0, 2]]).astype(object if dtype == "string" else tf.as_dtype(dtype).as_numpy_dtype)
    value = numpy.array([[b"a", b"", b"b"]], object) if dtype == "string" else value
    writer = ValuesWriter({"x": value, "scalar": numpy.float32(3)})
    for x in (value, value[:, :1]):  # its shape can change
        writer.save({"x": x, "scalar": numpy.float32(4)}, str(tmp_path / "net.001"))
        reader = tf.train.load_checkpoint(str(tmp_path / "net.001"))
        numpy.testing.assert_array_equal(reader.get_tensor("x"), x)
        assert reader.get_variable_to_dtype_map()["x"] == tf.as_dtype(dtype)
        assert reader.get_tensor("scalar") == 4
