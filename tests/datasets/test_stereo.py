from __future__ import annotations

import h5py
import numpy
import pytest

from returnn.datasets.normalization_data import NormalizationData
from returnn.datasets.stereo import DatasetWithTimeContext, StereoHdfDataset
from returnn.util.errors import ConfigError, UserError
from tests.datasets.corpus_checks import check_corpus_dataset, seqs_of_epoch


def write_hdf(path, *, seed=1, groups=("inputs", "outputs"), num=3):
    rnd = numpy.random.RandomState(seed)
    with h5py.File(path, "w") as file:
        for group, dim in zip(groups, (3, 2), strict=False):
            for i in range(num):
                file[f"{group}/seq{seed}{i}"] = rnd.normal(5.0, 2.0, size=(i + 2, dim))
    return str(path)


@pytest.fixture
def hdf(tmp_path):
    return write_hdf(tmp_path / "a.hdf")


@pytest.fixture
def bundle(tmp_path, hdf):
    (tmp_path / "all.bundle").write_text(f"{hdf}\n{write_hdf(tmp_path / 'b.hdf', seed=2)}\n")
    return str(tmp_path / "all.bundle")


@pytest.fixture
def norm(tmp_path, bundle):
    path = str(tmp_path / "norm.hdf")
    NormalizationData.create_normalization_file(bundle, path)
    return path


def frames_of(dataset, key):
    dataset.init_seq_order(epoch=1)
    return numpy.concatenate([data[key] for _, data in seqs_of_epoch(dataset)])


@pytest.mark.parametrize("cls", [StereoHdfDataset, DatasetWithTimeContext])
def test_properties(bundle, norm, cls):
    check_corpus_dataset(lambda **opts: cls(hdfFile=bundle, normalizationFile=norm, **opts))


def test_data(hdf):
    dataset = StereoHdfDataset(hdf)
    assert dataset.num_outputs == {"data": (3, 2), "classes": (2, 2)}
    assert dataset.get_all_tags() == ["seq10", "seq11", "seq12"]
    with h5py.File(hdf) as file:
        numpy.testing.assert_allclose(frames_of(dataset, "classes")[:2], file["outputs/seq10"][...], rtol=1e-6)
    assert StereoHdfDataset(hdf, partition_epoch=2).seqs_per_epoch == 2


def test_normalized_data_has_mean_0_and_variance_1(bundle, norm):
    dataset = StereoHdfDataset(bundle, normalizationFile=norm)
    for key in ("data", "classes"):
        frames = frames_of(dataset, key)
        numpy.testing.assert_allclose(frames.mean(0), 0, atol=1e-5)
        numpy.testing.assert_allclose(frames.std(0), 1, atol=1e-5)
    plain = frames_of(StereoHdfDataset(bundle), "classes")
    only_inputs = StereoHdfDataset(bundle, normalizationFile=norm, flag_normalizeTargets=False)
    numpy.testing.assert_array_equal(frames_of(only_inputs, "classes"), plain)
    numpy.testing.assert_allclose(NormalizationData(norm).outputMean, plain.mean(0), rtol=1e-5)


def test_only_targets_are_normalized(bundle, norm):
    dataset = StereoHdfDataset(bundle, normalizationFile=norm, flag_normalizeInputs=False)
    numpy.testing.assert_array_equal(frames_of(dataset, "data"), frames_of(StereoHdfDataset(bundle), "data"))
    numpy.testing.assert_allclose(frames_of(dataset, "classes").mean(0), 0, atol=1e-5)


def test_time_context(hdf):
    plain, context = frames_of(StereoHdfDataset(hdf), "data"), frames_of(DatasetWithTimeContext(hdf, tau=2), "data")
    assert context.shape == (9, 15)
    numpy.testing.assert_array_equal(context[:, 6:9], plain)
    numpy.testing.assert_array_equal(context[0], [0.0] * 6 + [*plain[0], *plain[1]] + [0.0] * 3)


def test_inputs_alone(tmp_path):
    path = write_hdf(tmp_path / "x.hdf", groups=("inputs",))
    dataset = StereoHdfDataset(path, num_outputs={"classes": [7, 2]})
    assert dataset.get_data_keys() == ["data"]
    assert dataset.get_data_dim("classes") == 7
    assert frames_of(dataset, "data").shape == (9, 3)


def test_wrong_input_is_named(tmp_path, hdf, norm):
    (tmp_path / "text.hdf").write_text("text")
    with pytest.raises(UserError, match=r"text.hdf' cannot be opened"):
        StereoHdfDataset(str(tmp_path / "text.hdf"))
    with h5py.File(tmp_path / "empty.hdf", "w"):
        pass
    with pytest.raises(UserError, match=r"empty.hdf': there is no group 'inputs'"):
        StereoHdfDataset(str(tmp_path / "empty.hdf"))
    with h5py.File(hdf, "a") as file:
        del file["outputs/seq11"]
    with pytest.raises(UserError, match=r"a.hdf': there is no 'outputs/seq11'"):
        StereoHdfDataset(hdf)
    path = write_hdf(tmp_path / "x.hdf", groups=("outputs", "inputs"))
    with pytest.raises(ConfigError, match="option 'normalizationFile' has 3 features for 'data', the data has 2"):
        StereoHdfDataset(path, normalizationFile=norm)
    with pytest.raises(ConfigError, match="option 'tau' has to be a positive number, got 0"):
        DatasetWithTimeContext(path, tau=0)


def test_normalization_without_outputs(tmp_path, hdf):
    (tmp_path / "a.bundle").write_text(hdf)
    path = str(tmp_path / "norm.hdf")
    NormalizationData.create_normalization_file(str(tmp_path / "a.bundle"), path, flag_include_outputs=False)
    assert NormalizationData(path).outputMean is None
    with pytest.raises(ConfigError, match=r"it has nothing for 'outputs'.*\n  Set 'flag_normalizeTargets' to False"):
        StereoHdfDataset(hdf, normalizationFile=path)


def test_sums_that_are_not_exact_are_an_error(tmp_path):
    with h5py.File(tmp_path / "x.hdf", "w") as file:
        file["inputs/a"] = numpy.full((10, 1), 1e30)
    (tmp_path / "x.bundle").write_text(str(tmp_path / "x.hdf"))
    args = (str(tmp_path / "x.bundle"), str(tmp_path / "norm.hdf"), numpy.float32, False)
    with numpy.errstate(over="ignore", invalid="ignore"), pytest.raises(UserError, match="not exact in float32"):
        NormalizationData.create_normalization_file(*args)
    assert not (tmp_path / "norm.hdf").exists()
