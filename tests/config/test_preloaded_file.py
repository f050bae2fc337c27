import numpy
import pytest

from returnn.config.preloaded_file import PreloadedFile, preloaded_files, warn_of_missing_files
from returnn.engine.frontend.preload import ValuesToPreload
from returnn.util.errors import ConfigError
from returnn.util.files.checkpoint_files import CheckpointError
from returnn.util.files.checkpoint_names import is_missing
from returnn.util.system.warn_once import forget_shown


@pytest.mark.parametrize("name", ["net.001.index", "net.001.pt", "net.001.safetensors", "net.001", "of-others.bin"])
def test_a_checkpoint_is_there_if_one_of_its_files_is(name, tmp_path):
    (tmp_path / name).write_text("")
    assert not is_missing(str(tmp_path / name))
    assert not is_missing(str(tmp_path / name).removesuffix(".index").removesuffix(".pt").removesuffix(".safetensors"))
    assert is_missing(str(tmp_path / "net.002"))
    assert is_missing(str(tmp_path / "folder" / "net.001"))


def test_a_folder_is_no_checkpoint(tmp_path):
    (tmp_path / "net.001").mkdir()
    assert is_missing(str(tmp_path / "net.001"))


def test_a_training_says_which_files_other_tasks_will_not_find(tmp_path, caplog):
    missing = str(tmp_path / "net.001")
    (tmp_path / "net.002.pt").write_text("")
    option = {
        "lm": {"filename": missing},
        "am": {"filename": missing, "init_for_train": True},  # an error of its own, if it is needed
        "there": {"filename": str(tmp_path / "net.002")},
    }
    warn_of_missing_files(option)
    warn_of_missing_files(None)
    assert caplog.messages == [
        f"WARNING: option 'preload_from_files': 'lm': checkpoint {missing!r} does not exist. The training does not load"
        " it, as 'init_for_train' is not set; search, forward and evaluation do.",
        "option 'preload_from_files': 'there' is not loaded by a training, as 'init_for_train' is not set",
    ]


def test_errors_about_the_file_name_the_entry():
    (file,) = preloaded_files({"lm": {"filename": "net.001"}})
    assert isinstance(file, PreloadedFile)
    message = r"^option 'preload_from_files': 'lm': checkpoint 'net\.001' is damaged\.$"
    with pytest.raises(ConfigError, match=message), file.opened():
        raise CheckpointError("checkpoint 'net.001' is damaged.")


def test_names_that_are_nowhere_are_said(caplog):
    forget_shown()
    names = {"ignore_params": ["lstm.bias", "lstm.bais"], "ignore_params_prefixes": ["out.", "outt."]}
    mapping = {"lstm.bias": "lstm.b", "lstm.wieght": "lstm.w"}
    (file,) = preloaded_files({"lm": {"filename": "net.001", **names, "var_name_mapping": mapping}})
    file.warn_of_names_without_effect(in_file=["lstm.b", "lstm.w"], in_model=["lstm.bias", "lstm.weight", "out.weight"])
    where = "option 'preload_from_files': 'lm'"
    said = [message.removeprefix(f"WARNING: {where}: ") for message in caplog.messages]
    assert [message.partition(" Did")[0].partition(" Possible")[0] for message in said] == [
        "'ignore_params': neither file nor model have a parameter 'lstm.bais'.",
        "'ignore_params_prefixes': neither file nor model have a parameter 'outt.'.",
        "'var_name_mapping': the model has no parameter 'lstm.wieght'.",
    ]


SIMILAR = (
    "WARNING: option 'preload_from_files': 'lm': 'ignore_missing': the file has no parameter 'b_stat/W', which gets no "
    "value from it, but 'b_state/W'"
)


def test_a_misspelt_parameter_of_a_model_in_python(caplog):
    forget_shown()
    option = {"filename": "net.001", "ignore_missing": True, "ignore_params": ["encodr"]}
    (file,) = preloaded_files({"lm": option}, ValuesToPreload)
    content = {"b_state/W": numpy.ones(3), "x": numpy.ones(3), "encodr": numpy.ones(3), "step": 5}
    file.values({"b_stat/W": numpy.ones(3), "x": numpy.ones(3), "encoder": numpy.ones(3)}, content)
    assert caplog.messages == [f"{SIMILAR}. Is it misspelt? 'var_name_mapping' renames."]


def test_all_that_does_not_fit_is_named_at_once():
    (file,) = preloaded_files({"lm": {"filename": "net.001"}}, ValuesToPreload)
    parameters = {"a": numpy.ones(2), "b": numpy.ones((3, 2)), "c": numpy.ones(3), "d": numpy.ones(3)}
    with pytest.raises(ConfigError) as info:
        file.values(parameters, {"a": numpy.ones(3), "b": numpy.ones((2, 2))})
    first, _, *lines = str(info.value).split("\n")
    assert first == (
        "option 'preload_from_files': 'lm': the file 'net.001' does not fit: it has no 'c', for the parameter 'c' (and"
        " 1 other: 'd')."
    )
    assert lines == [
        "  Beside that, 2 parameters of the model with another shape than in the file:",
        "  'a' has the shape [2] in the model, but [3] in the file",
        "  'b' has the shape [3, 2] in the model, but [2, 2] in the file",
        "  In 'preload_from_files', this takes the other parameters of a file:",
        "  'ignore_params': ['a', 'b']",
    ]
    option = {"lm": {"filename": "net.001", "ignore_params": ["a", "b"], "ignore_missing": True}}
    (file,) = preloaded_files(option, ValuesToPreload)
    with pytest.raises(ConfigError, match="all parameters are ignored"):
        file.values(parameters, {"a": numpy.ones(3), "b": numpy.ones((2, 2))})


@pytest.mark.parametrize(("name", "shape", "is_said"), [
    ("lin.weight", (6, 8), True), ("lin.weight", (6, 7), False), ("lin.W", (6, 8), False),
])  # fmt: skip
def test_weights_of_torch_are_transposed(name, shape, is_said):
    (file,) = preloaded_files({"lm": {"filename": "net.001"}}, ValuesToPreload)
    with pytest.raises(ConfigError) as info:
        file.values({name: numpy.ones((8, 6))}, {name: numpy.ones(shape)})
    text = "  'lin.weight' is transposed: torch.nn.Linear has [out, in] where rf.Linear has [in, out]."
    assert (text in str(info.value)) is is_said


@pytest.mark.parametrize("options", [{}, {"ignore_missing": True}])
def test_parameters_under_another_key_are_found(options):
    (file,) = preloaded_files({"lm": {"filename": "net.001", **options}}, ValuesToPreload)
    content = {"state_dict": {"a": numpy.ones(2)}, "hyper": {"lr": 0.1}, "epoch": 3}
    with pytest.raises(ConfigError) as info:
        file.values({"a": numpy.ones(2)}, content)
    hint = "\n  The file has parameters in 'state_dict': 'checkpoint_key' says in which, as 'state_dict'."
    assert str(info.value).endswith(hint)
    option = {"lm": {"filename": "net.001", "checkpoint_key": "state_dict", **options}}
    (file,) = preloaded_files(option, ValuesToPreload)
    assert list(file.values({"a": numpy.ones(2)}, content)) == ["a"]


def test_a_function_gets_the_rows_of_labels_of_before():
    def with_new_labels(*, name, shape, preload_model_state, **_):
        new = numpy.zeros(shape)
        new[: len(preload_model_state[name])] = preload_model_state[name]
        return new

    options = {"var_name_mapping": {"out.bias": "grown/out.bias"}, "custom_missing_load_func": with_new_labels}
    (file,) = preloaded_files({"lm": {"filename": "net.001", **options}}, ValuesToPreload)
    values = file.values({"out.bias": numpy.ones(3)}, {"model": {"out.bias": numpy.full(2, 7.0)}})
    assert values["out.bias"].tolist() == [7, 7, 0]


def test_which_files_a_check_looks_at(tmp_path):
    (tmp_path / "net.001.pt").write_text("")
    there, missing = str(tmp_path / "net.001"), str(tmp_path / "net.002")

    def names(*, trains, has_own_checkpoint=False):
        option = {
            "first": {"filename": missing, "init_for_train": True},
            "always": {"filename": missing, "init_for_train": "always"},
            "later": {"filename": missing},  # a training does not need it
            "other": {"filename": there},
            "part": {"filename": there, "prefix": "lm."},  # a training may have no such parameters
        }
        files = preloaded_files(option)
        state = {"trains": trains, "has_own_checkpoint": has_own_checkpoint, "names": ["encoder.weight"]}
        return {file.name for file in files if file.is_to_check(**state)}

    assert names(trains=True) == {"first", "always", "other"}
    assert names(trains=True, has_own_checkpoint=True) == {"always", "other"}
    assert names(trains=False) == {"always", "later", "other", "part"}


@pytest.mark.parametrize("ignored", ["enc.lstm.bias", "lstm.bias"])
def test_names_in_the_file_and_in_the_model_can_be_left_out(ignored):
    option = {"lm": {"filename": "net.001", "prefix": "enc.", "ignore_params": [ignored]}}
    (file,) = preloaded_files(option, ValuesToPreload)
    content = {"lstm.bias": numpy.ones(2), "lstm.weight": numpy.ones(3)}
    parameters = {f"enc.{name}": value for name, value in content.items()}
    assert list(file.values(parameters, content)) == ["enc.lstm.weight"]
    (file,) = preloaded_files({"lm": {"filename": "net.001", "ignore_missing": True}}, ValuesToPreload)
    with pytest.raises(ConfigError, match=r"all parameters are ignored, or the file 'net\.001' has none of them"):
        file.values(parameters, content)
