from __future__ import annotations

import numpy
import pytest

from returnn.datasets.raw_wav import RawWavDataset
from returnn.util.errors import ConfigError, UserError
from tests.datasets.corpus_checks import check_corpus_dataset, seqs_of_epoch
from tests.datasets.util.test_feature_extraction import sawtooth, wav_bytes


@pytest.fixture
def list_file(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.wav").write_bytes(wav_bytes(sawtooth(0.1 * (i + 1))))
    (tmp_path / "list").write_text("\n".join(str(tmp_path / f"{i}.wav") for i in range(3)) + "\n\n")
    return str(tmp_path / "list")


def test_properties(list_file):
    check_corpus_dataset(lambda **opts: RawWavDataset(list_file, frameLength=100, frameShift=40, **opts))


def test_frames(list_file):
    dataset = RawWavDataset(list_file, 100, 40, num_outputs=5)
    dataset.init_seq_order(epoch=1)
    tag, data = seqs_of_epoch(dataset)[0]
    assert tag.endswith("0.wav")
    assert data["data"].shape == ((800 - 100) // 40 + 1, 100)
    numpy.testing.assert_allclose(data["data"][2], sawtooth(0.1)[80:180], atol=1e-4)
    assert dataset.get_data_dim("classes") == 5


def test_wrong_input_is_named(tmp_path, list_file):
    with pytest.raises(ConfigError, match="have to be positive, got 0 and 1"):
        RawWavDataset(list_file, 0, 1)
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(UserError, match="there are no files in"):
        RawWavDataset(str(tmp_path / "empty"), 10, 10)
    (tmp_path / "1.wav").write_bytes(wav_bytes(numpy.zeros((10, 2))))
    dataset = RawWavDataset(list_file, 100, 40)
    dataset.init_seq_order(epoch=1)
    with pytest.raises(UserError, match=r"sequence '.*1.wav': the audio has 2 channels, expected 1"):
        seqs_of_epoch(dataset)
