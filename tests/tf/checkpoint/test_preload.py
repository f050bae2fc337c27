import re
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

from returnn.config.preloaded_file import preloaded_files
from returnn.log import log
from returnn.tf.checkpoint.assign import run_custom_post_inits
from returnn.tf.checkpoint.preload import set_preloaded_values
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import forget_shown
from tests.tf.checkpoint.model import opened


@pytest.mark.parametrize(
    ("init_for_train", "begins", "continues", "search"),
    [(False, False, False, True), (True, True, False, False), ("always", True, True, True)],
)
def test_when_a_file_is_loaded(init_for_train, begins, continues, search):
    (file,) = preloaded_files({"lm": {"filename": "lm.001", "init_for_train": init_for_train}})
    assert file.is_needed(is_training=True, has_own_checkpoint=False) is begins
    assert file.is_needed(is_training=True, has_own_checkpoint=True) is continues
    assert file.is_needed(is_training=False, has_own_checkpoint=True) is search


@pytest.fixture(scope="module")
def with_new_labels():
    """:return: what the code of the docs defines"""
    page = (Path(__file__).resolve().parents[3] / "docs" / "running.md").read_text(encoding="utf8")
    (code,) = (
        block for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "with_new_labels" in block
    )
    namespace = {}
    exec(compile(code, "docs/running.md", "exec", dont_inherit=True), namespace)
    return namespace


def test_rows_of_old_labels_of_a_vocabulary_that_has_grown(with_new_labels, tmp_path):
    old_shapes = {"source/W": (3, 2), "output/rec/prob/W": (2, 3), "output/rec/prob/b": (3,), "encoder/W": (2,)}
    new_shapes = {"source/W": (5, 2), "output/rec/prob/W": (2, 5), "output/rec/prob/b": (5,), "encoder/W": (2,)}
    more = "output/rec/embedded/W"
    with opened({**old_shapes, more: (3, 4)}) as model:
        model.fill(2.0)
        file = model.save(tmp_path / "net.020", 2.0)
    option = with_new_labels["preload_from_files"]
    with opened({**new_shapes, more: (5, 4)}) as model:
        model.fill(-1.0)
        variables = list(model.variables.values())
        files = preloaded_files({"base": {**option["base"], "filename": file}})
        found = set_preloaded_values(files, variables, is_training=True, has_own_checkpoint=False)
        run_custom_post_inits(variables, model.session)
        assert len(found) == 5
        for name, old_shape in {**old_shapes, more: (3, 4)}.items():
            is_old = numpy.zeros(model.values()[name].shape, bool)
            is_old[tuple(map(slice, old_shape))] = True
            assert (model.values()[name][is_old] == 2.0).all()
            assert (model.values()[name][~is_old] == 0.0).all()  # normal, with the deviation of the old ones


def test_blank_stays_behind_labels_of_a_vocabulary_that_has_grown(with_new_labels, monkeypatch):
    old = {
        "ctc/W": numpy.arange(6.0).reshape(2, 3),
        "ctc/b": numpy.arange(3.0),
        "source/W": numpy.arange(6.0).reshape(3, 2),
    }
    monkeypatch.setitem(with_new_labels, "with_blank", ["ctc/W", "ctc/b"])
    reader = SimpleNamespace(get_tensor=old.__getitem__)
    values = {
        name: with_new_labels["with_new_labels"](name=f"grown/{name}", shape=shape, reader=reader)
        for name, shape in {"ctc/W": (2, 5), "ctc/b": (5,), "source/W": (5, 2)}.items()
    }
    assert values["ctc/b"][[0, 1, 4]].tolist() == [0.0, 1.0, 2.0]
    assert (values["ctc/W"][:, [0, 1, 4]] == old["ctc/W"]).all()
    assert (values["source/W"][:3] == old["source/W"]).all()


def test_parameters_of_several_models(tmp_path):
    with opened({"encoder/W": (3,), "encoder/b": (2,)}) as model:
        am = model.save(tmp_path / "am.005", 5.0)
    with opened({"lstm/W": (4,), "extra": (1,)}) as model:
        lm = model.save(tmp_path / "lm.007", 7.0)
    option = {
        "am": {"filename": am, "prefix": "am_", "init_for_train": True, "ignore_params": ["encoder/b"]},
        "lm": {"filename": f"{lm}.index", "prefix": "lm_", "init_for_train": "always"},
        "search only": {"filename": "missing", "prefix": "search_"},
    }
    names = {"output/am_encoder/W": (3,), "output/am_encoder/b": (2,), "output/lm_lstm/W": (4,), "own/W": (2,)}
    option["am"]["var_name_mapping"] = {
        "output/am_encoder/W": "encoder/W",
        "output/am_encoder/b": "encoder/b",
    }
    option["lm"]["var_name_mapping"] = {"output/lm_lstm/W": "lstm/W"}
    with opened(names) as model:
        model.fill(-1.0)
        variables = list(model.variables.values())
        found = set_preloaded_values(preloaded_files(option), variables, is_training=True, has_own_checkpoint=False)
        run_custom_post_inits(variables, model.session)
        assert {name: value[0] for name, value in model.values().items()} == {
            "output/am_encoder/W": 5.0,
            "output/am_encoder/b": -1.0,
            "output/lm_lstm/W": 7.0,
            "own/W": -1.0,
        }
    assert [var.op.name for var in found] == ["output/am_encoder/W", "output/lm_lstm/W"]


def test_a_prefix_that_no_parameter_has_is_said(tmp_path, monkeypatch):
    with opened({"lstm/W": (4,)}) as model:
        option = {"lm": {"filename": model.save(tmp_path / "lm.007", 7.0), "prefix": "ml_", "init_for_train": True}}
    texts = []
    monkeypatch.setattr(log, "print_warning", texts.append)
    with opened({"lm_lstm/W": (4,)}) as model:
        variables = list(model.variables.values())
        assert not set_preloaded_values(preloaded_files(option), variables, is_training=True, has_own_checkpoint=False)
    filename = option["lm"]["filename"]
    assert texts == [
        "option 'preload_from_files': 'lm': the network has no parameter with 'ml_' in its name that is loaded from "
        f"{filename!r}."
    ]


def test_no_files():
    assert preloaded_files(None) == preloaded_files({}) == []


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("lm.001", "option 'preload_from_files' is 'lm.001'.\n  It has to be a dict: name -> dict."),
        ({"lm": "lm.001"}, "option 'preload_from_files': 'lm' is 'lm.001'.\n  It has to be a dict with 'filename'."),
        (
            {"lm": {"filename": "lm.001", "ignore_missin": True}},
            "option 'preload_from_files': 'lm': there is no key 'ignore_missin'.\n"
            "  Did you mean 'ignore_missing' or 'ignore_params'?",
        ),
        (
            {"lm": {"filename": "lm.001", "init_for_train": "allways"}},
            "option 'preload_from_files': 'lm': 'init_for_train' is 'allways'.\n  Possible: True, False, 'always'.",
        ),
    ],
)
def test_wrong_option(option, text):
    with pytest.raises(ConfigError) as error:
        preloaded_files(option)
    assert str(error.value) == text


def test_a_misspelt_parameter_is_said(tmp_path, caplog):
    forget_shown()
    with opened({"b_state/W": (4,), "b_out/W": (3,)}) as model:
        option = {"b": {"filename": model.save(tmp_path / "b.007", 7.0), "ignore_missing": True}}
    with opened({"b_stat/W": (4,), "b_out/W": (3,), "state/W": (4,)}) as model:
        variables = list(model.variables.values())
        found = set_preloaded_values(preloaded_files(option), variables, is_training=False, has_own_checkpoint=True)
    assert [var.op.name for var in found] == ["b_out/W"]
    (said,) = [message for message in caplog.messages if message.startswith("WARNING")]
    assert "the file has no parameter 'b_stat/W', which gets no value from it, but 'b_state/W'. Is it" in said
