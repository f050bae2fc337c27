"""Looking for values of options with models in Python; with net dicts see `tests/tf/test_hyper_param_tuning`."""

import textwrap

import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config, get_global_config, set_global_config
from returnn.log import log
from returnn.tasks import find_task
from returnn.util.backend_engine import BackendEngine
from tests.engine.frontend import small_model

CONFIG = """
    from returnn.tf.hyper_param_tuning import HyperParam
    from tests.engine.frontend import small_model

    hidden = HyperParam(dtype=int, bounds=(2, 5))
    learning_rate = HyperParam(bounds=(1e-9, 0.1), log=True, default=1e-9)

    def get_model(*, epoch, step, **kwargs):
        note(hidden)
        return small_model.Model(hidden=hidden)

    hyper_param_tuning = {
        "num_tune_iterations": 2, "num_individuals": 4, "num_kill_individuals": 2, "num_best": 3, "num_train_steps": 2,
    }
"""


@pytest.mark.parametrize("backend", ["torch", "tensorflow"])
def test_functions_of_the_config_see_the_values_of_each_individual(backend, tmp_path, capsys):
    log.initialize(verbosity=[3])
    (tmp_path / "tuning.py").write_text(textwrap.dedent(CONFIG))
    options = {**small_model.config(tmp_path).typed_dict, "backend": backend, "task": "hyper_param_tuning"}
    config = Config({key: options[key] for key in options if key not in ("get_model", "learning_rate")})
    seen = []
    config.set("note", seen.append)
    config.load_file(str(tmp_path / "tuning.py"))
    before = BackendEngine.selected_engine
    try:
        set_global_config(config)
        BackendEngine.select_engine(config=config)
        find_task("hyper_param_tuning", config)()
        assert get_global_config() is config
    finally:
        set_global_config(None)
        rf.select_backend_numpy()
        BackendEngine.selected_engine = before
        tf.compat.v1.reset_default_graph()
    best = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("1. "))
    values = dict(part.split("=") for part in best.split(", ")[1:])
    assert float(values["learning_rate"]) > 1e-9
    assert len(seen) == 6
    assert set(seen) <= {2, 3, 4, 5}
    assert int(values["hidden"]) in seen
    assert not list(tmp_path.glob("net*"))  # no model files
