"""Options of sessions."""

import os

import pytest

from returnn.config import Config
from returnn.config.device import asks_for_gpu
from returnn.tf.engine.session.device import session_options
from returnn.util.errors import ConfigError


@pytest.fixture(autouse=True)
def same_environment(monkeypatch):
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_clustering_debug=false")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_a_session_compiles_where_that_is_asked_for():
    assert session_options(Config({})) == {}
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug=false"
    for _ in range(2):
        options = session_options(Config({"tf_jit": True, "device": "cpu"}))
        assert options["device_count"] == {"GPU": 0}
        assert options["graph_options"]["optimizer_options"] == {"global_jit_level": 1}
        assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_clustering_debug=false --tf_xla_cpu_global_jit"


def test_names_of_devices():
    with pytest.raises(
        ConfigError, match=r"option 'device': TensorFlow has no 'gup'\.\n  Possible: 'cpu', 'gpu', 'gpu0'"
    ):
        session_options(Config({"device": "gup"}))
    assert asks_for_gpu(Config({"device": "cuda"}))
    assert not asks_for_gpu(Config({"device": "cpu0"}))


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"])
def test_as_many_threads_as_the_environment_says(monkeypatch, name):
    monkeypatch.setenv(name, "3")
    options = {"intra_op_parallelism_threads": 3, "inter_op_parallelism_threads": 3}
    assert session_options(Config({})) == options
    assert session_options(Config({"device": "cpu"})) == {"device_count": {"GPU": 0}, **options}
