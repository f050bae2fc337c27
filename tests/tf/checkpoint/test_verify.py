import os
from pathlib import Path

import numpy
import pytest
import tensorflow as tf

from returnn.tf.checkpoint.files import CheckpointError
from returnn.tf.checkpoint.verify import newest_intact_checkpoint, verify_checkpoint
from tests.tf.checkpoint.model import content, opened

INDEX, DATA = ".index", ".data-00000-of-00001"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    checkpoint = str(tmp_path_factory.mktemp("saved") / "m.001")
    with opened() as model:
        return model.save(checkpoint)


@pytest.fixture
def checkpoint(saved, tmp_path):
    for suffix in (INDEX, DATA):
        (tmp_path / f"m.001{suffix}").write_bytes(Path(saved + suffix).read_bytes())
    return str(tmp_path / "m.001")


def message(checkpoint):
    with pytest.raises(CheckpointError) as error:
        verify_checkpoint(checkpoint)
    text = str(error.value)
    assert text.startswith(f"checkpoint {checkpoint!r}")
    assert len(text.splitlines()) <= 5
    return text.removeprefix(f"checkpoint {checkpoint!r}").replace(checkpoint, "C")


def damage_of(checkpoint):
    try:
        verify_checkpoint(checkpoint)
    except CheckpointError as exc:
        return str(exc)


def test_intact(checkpoint):
    verify_checkpoint(checkpoint)


def test_missing_files(checkpoint):
    os.rename(checkpoint + DATA, checkpoint + "x")
    assert message(checkpoint) == f": the file 'C{DATA}' is missing."
    os.rename(checkpoint + "x", checkpoint + DATA)
    os.remove(checkpoint + INDEX)
    assert message(checkpoint) == f": the file 'C{INDEX}' is missing."


def test_missing_checkpoint_lists_what_is_there(checkpoint):
    folder = os.path.dirname(checkpoint)
    assert message(f"{folder}/m.002") == f" does not exist.\n  The folder {folder!r} has m.001."
    assert message(f"{folder}/x/m.002") == f" does not exist.\n  The folder '{folder}/x' does not exist."


def test_of_many_checkpoints_the_last_ones_are_named(tmp_path):
    for epoch in range(1, 8):
        (tmp_path / f"m.{epoch:03d}.index").write_bytes(b"")
    assert message(str(tmp_path / "m.009")).endswith(" has m.003, m.004, m.005, m.006, m.007 and 2 others.")


@pytest.mark.parametrize(("suffix", "kind"), [(".npz", "numpy"), (".pt", "PyTorch"), (".safetensors", "safetensors")])
def test_a_checkpoint_of_another_format(suffix, kind, tmp_path):
    file = tmp_path / f"x{suffix}"
    file.write_bytes(b"")
    for name in (str(file), str(tmp_path / "x")):
        with pytest.raises(CheckpointError) as error:
            verify_checkpoint(name)
        assert str(error.value) == (
            f"checkpoint {name!r}: {str(file)!r} has the format of {kind}, which TensorFlow does not load.\n"
            f"  To convert it: returnn tool convert-checkpoint {file} NAME\n"
            "  For a net dict, parameters of a model in Python need other names, too: --rename '\\.' '/'"
        )


def test_missing_shard(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [tf.compat.v1.get_variable(f"W{i}", (3,), use_resource=True) for i in range(2)]
        session.run(tf.compat.v1.global_variables_initializer())
        parts = [
            tf.raw_ops.SaveV2(
                prefix=f"{tmp_path}/part{i}", tensor_names=[var.op.name], shape_and_slices=[""], tensors=[var]
            )
            for i, var in enumerate(variables)
        ]
        with tf.control_dependencies(parts):
            merge = tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=[f"{tmp_path}/part0", f"{tmp_path}/part1"], destination_prefix=f"{tmp_path}/m.001"
            )
        session.run(merge)
    checkpoint = str(tmp_path / "m.001")
    verify_checkpoint(checkpoint)
    os.remove(f"{checkpoint}.data-00001-of-00002")
    assert message(checkpoint) == ": the file 'C.data-00001-of-00002' is missing."


@pytest.mark.parametrize("suffix", [INDEX, DATA])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_truncated_file(checkpoint, suffix, share):
    size = os.path.getsize(checkpoint + suffix)
    os.truncate(checkpoint + suffix, int(size * share))
    reasons = ["is truncated", "is damaged"] if suffix == DATA else ["is damaged"]
    assert message(checkpoint).removeprefix(f": the file 'C{suffix}' ").split(",")[0].rstrip(".") in reasons


@pytest.mark.parametrize("suffix", [INDEX, DATA])
def test_flipped_bit_is_found_or_harmless(checkpoint, suffix):
    good = Path(checkpoint + suffix).read_bytes()
    expected = content(checkpoint)
    random = numpy.random.default_rng(1)
    num_found = 0
    for position in random.integers(0, len(good), size=60):
        bad = bytearray(good)
        bad[position] ^= 1 << int(random.integers(8))
        Path(checkpoint + suffix).write_bytes(bad)
        reason = damage_of(checkpoint)
        if reason is None:
            numpy.testing.assert_equal(content(checkpoint), expected)
        else:
            num_found += 1
            assert f"{checkpoint}{suffix}' is" in reason or "is missing" in reason
    assert num_found > (50 if suffix == DATA else 30)


def test_damage_names_the_variable(checkpoint):
    with open(checkpoint + DATA, "r+b") as file:
        file.seek(4)
        byte = file.read(1)
        file.seek(4)
        file.write(bytes([byte[0] ^ 1]))
    assert message(checkpoint) == f": the file 'C{DATA}' is damaged, at 'encoder/W'."


def test_newest_intact_checkpoint(tmp_path):
    with opened() as model:
        checkpoints = {epoch: model.save(tmp_path / f"m.{epoch:03d}") for epoch in (1, 2, 3, 4)}
    assert newest_intact_checkpoint(checkpoints).epoch == 4
    os.truncate(checkpoints[4] + DATA, 100)
    os.remove(checkpoints[3] + DATA)
    newest = newest_intact_checkpoint(checkpoints)
    assert (newest.epoch, newest.checkpoint) == (2, checkpoints[2])
    assert [damage.reason for damage in newest.skipped] == [
        f"checkpoint '{checkpoints[4]}': the file '{checkpoints[4]}{DATA}' is truncated, at 'encoder/W'.",
        f"checkpoint '{checkpoints[3]}': the file '{checkpoints[3]}{DATA}' is missing.",
    ]
    assert newest_intact_checkpoint({3: checkpoints[3]}).epoch is None
    assert newest_intact_checkpoint({}).skipped == ()
