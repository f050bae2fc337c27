import numpy
import pytest
import tensorflow as tf

from returnn.tf.checkpoint.assign import have_custom_post_init, run_custom_post_inits, set_custom_post_init
from returnn.tf.checkpoint.average import write_checkpoint
from returnn.tf.checkpoint.files import CheckpointError
from returnn.tf.checkpoint.load import CustomCheckpointLoader
from tests.tf.checkpoint.model import SHAPES, content, opened


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A checkpoint as the original toolkit writes it: with its saver, slots of the optimizer and the step."""
    checkpoint = str(tmp_path_factory.mktemp("trained") / "network.012")
    shapes = {**SHAPES, "optimize/beta1_power": (), "optimize/output/W/Adam": (20, 5)}
    with opened(shapes) as model:
        for i, var in enumerate(model.variables.values()):
            model.session.run(var.initializer, {var.initializer.inputs[1]: numpy.full(var.shape, i + 1.0)})
        step = tf.compat.v1.get_variable("global_step", initializer=numpy.int64(99), use_resource=True)
        model.session.run(step.initializer)
        saver = tf.compat.v1.train.Saver([*model.variables.values(), step], max_to_keep=2**31 - 1)
        saver.save(model.session, checkpoint)
    return checkpoint


def load(trained, shapes=SHAPES, prefix="", **options):
    """:return: values afterwards; what is not loaded stays -1"""
    with opened(shapes, prefix) as model:
        model.fill(-1.0)
        loader = CustomCheckpointLoader(trained, list(model.variables.values()), **options)
        num_ops = len(model.graph.get_operations())
        loader.load_now(model.session)
        assert len(model.graph.get_operations()) == num_ops
        return {name: value.ravel()[0] for name, value in model.values().items()}


LOADED = {"encoder/W": 1.0, "encoder/b": 2.0, "output/W": 3.0}


def test_names_and_values(trained):
    assert load(trained) == LOADED
    assert load(f"{trained}.index") == LOADED
    assert load(f"{trained}.meta") == LOADED


def test_optimizer_and_step(trained):
    shapes = {**SHAPES, "optimize/output/W/Adam": (20, 5)}
    assert load(trained, shapes) == {**LOADED, "optimize/output/W/Adam": 5.0}


def test_missing_variables_of_the_optimizer_start_anew(trained, capsys):
    shapes = {**SHAPES, "optimize/output/W/Momentum": (20, 5)}
    assert load(trained, shapes) == {**LOADED, "optimize/output/W/Momentum": -1.0}


def test_int_and_half_precision(trained):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        step = tf.compat.v1.get_variable("global_step", (), tf.int64, use_resource=True)
        half = tf.compat.v1.get_variable("output/W", (20, 5), tf.float16, use_resource=True)
        CustomCheckpointLoader(trained, [step, half]).load_now(session)
        assert session.run(step) == 99
        assert session.run(half)[0, 0] == 3.0


def test_wrong_dtype(trained):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        var = tf.compat.v1.get_variable("output/W", (20, 5), tf.int32, use_resource=True)
        with pytest.raises(CheckpointError) as error:
            CustomCheckpointLoader(trained, [var]).load_now(session)
    assert str(error.value) == "parameter 'output/W' has dtype int32, but the value has float32."


def test_prefix_of_all_parameters(trained):
    assert load(trained, prefix="teacher/", params_prefix="teacher/") == LOADED
    with pytest.raises(CheckpointError) as error:
        load(trained, prefix="teacher/", params_prefix="student/")
    assert str(error.value) == "parameter 'teacher/encoder/W' does not start with the prefix 'student/'."


def test_loads_only_parameters_with_the_prefix(trained):
    shapes = {"am_encoder/W": (30, 20), "output/rec/am_output/W": (20, 5), "encoder/b": (20,)}
    mapping = {"output/rec/am_output/W": "output/W"}
    assert load(trained, shapes, load_if_prefix="am_", var_name_mapping=mapping) == {
        "am_encoder/W": 1.0,
        "output/rec/am_output/W": 3.0,
        "encoder/b": -1.0,
    }


def test_ignored_parameters(trained):
    assert load(trained, ignore_params=["encoder/b"]) == {**LOADED, "encoder/b": -1.0}
    assert load(trained, ignore_params_prefixes=["encoder/"]) == {"encoder/W": -1.0, "encoder/b": -1.0, "output/W": 3.0}


RENAMED = {"encoder/W": (30, 20), "encoder/bias": (20,), "output/W": (20, 5)}


def test_missing_parameter(trained):
    with pytest.raises(CheckpointError) as error:
        load(trained, RENAMED)
    assert str(error.value) == (
        f"checkpoint {trained!r}: 1 of 3 parameters are not in it: 'encoder/bias'.\n"
        "  For 'encoder/bias': did you mean 'encoder/b'?\n"
        "  Only in the checkpoint: 'encoder/b'.\n"
        "  'load_ignore_missing_vars = True' leaves them at random; in 'preload_from_files' and 'load_on_init', "
        "'ignore_missing': True does, and 'var_name_mapping' renames."
    )
    assert load(trained, RENAMED, ignore_missing=True)["encoder/bias"] == -1.0
    assert load(trained, RENAMED, var_name_mapping={"encoder/bias": "encoder/b"})["encoder/bias"] == 2.0


def test_dots_of_pytorch_are_slashes(tmp_path):
    values = {
        name.replace("/", "."): numpy.full(shape, i + 1.0, "float32") for i, (name, shape) in enumerate(SHAPES.items())
    }
    checkpoint = str(tmp_path / "net.001")
    write_checkpoint(values, checkpoint)
    assert load(checkpoint) == LOADED
    assert load(checkpoint, ignore_params_prefixes=["encoder."]) == {
        "encoder/W": -1.0, "encoder/b": -1.0, "output/W": 3.0
    }  # fmt: skip
    write_checkpoint({**values, "encoder/W": -2.0 * values["encoder.W"]}, checkpoint)
    assert load(checkpoint)["encoder/W"] == -2.0  # the name itself is there
    write_checkpoint({"a/b.W": values["encoder.b"], "a.b/W": values["encoder.b"]}, checkpoint)
    with pytest.raises(CheckpointError, match="are not in it: 'a/b/W'"):  # it may be either
        load(checkpoint, {"a/b/W": (20,)})


def test_many_missing_parameters_make_a_short_message(trained):
    shapes = {f"layer{i}/W": (2, 2) for i in range(100)}
    with pytest.raises(CheckpointError) as error:
        load(trained, shapes)
    lines = str(error.value).splitlines()
    assert len(lines) <= 5
    assert lines[0].endswith(
        "100 of 100 parameters are not in it: 'layer0/W', 'layer1/W', 'layer10/W', 'layer11/W', "
        "'layer12/W' and 95 more."
    )


def test_function_for_missing_parameters(trained):
    def average(*, name, shape, reader):
        assert (name, shape) == ("encoder/bias", (20,))
        return reader.get_tensor("encoder/b") / 4

    assert load(trained, RENAMED, custom_missing_load_func=average)["encoder/bias"] == 0.5
    with pytest.raises(CheckpointError, match="not in it: 'encoder/bias'"):
        load(trained, RENAMED, custom_missing_load_func=lambda **_kwargs: None)
    with pytest.raises(CheckpointError, match=r"'encoder/bias' has the shape \[20\] in the model, but \[3\]"):
        load(trained, RENAMED, custom_missing_load_func=lambda **_kwargs: numpy.zeros(3))


def test_other_shapes(trained):
    with pytest.raises(CheckpointError) as error:
        load(trained, {**SHAPES, "output/W": (20, 6), "encoder/b": (21,)})
    assert str(error.value) == (
        f"checkpoint {trained!r}: 2 parameters of the model with another shape than in the file:\n"
        "  'encoder/b' has the shape [21] in the model, but [20] in the file\n"
        "  'output/W' has the shape [20, 6] in the model, but [20, 5] in the file\n"
        "  Was the network changed? A new 'model' begins anew.\n"
        "  In 'preload_from_files', this takes the other parameters of a file:\n"
        "  'ignore_params': ['encoder/b', 'output/W']"
    )
    with pytest.raises(CheckpointError, match=r"(?s)are not in it: 'new'.*Beside that, 1 parameter .*'output/W' has"):
        load(trained, {**SHAPES, "output/W": (20, 6), "new": (1,)})


def test_groups_of_names(trained):
    with opened({"encoder/W": (30, 20), "new/W": (2,), "optimize/new/W/Adam": (2,)}) as model:
        loader = CustomCheckpointLoader(trained, list(model.variables.values()), ignore_missing=True)
    assert loader.missing_var_names == ["new/W"]
    assert loader.missing_non_critical_var_names == ["optimize/new/W/Adam"]
    assert loader.obsolete_var_names == ["encoder/b", "output/W"]
    assert set(loader.get_variable_value_map()) == {model.variables["encoder/W"].ref()}


class TransposingLayer:
    """Its parameter is the transposed one of the checkpoint, under another name."""

    custom_param_importer = "transposed"

    def __init__(self, var):
        self.own_params = {"W_transposed": var}

    def get_absolute_name(self):
        return "output"

    def set_param_values_by_dict(self, values_dict, session):
        assert list(values_dict) == ["W"]
        var = self.own_params["W_transposed"]
        session.run(var.initializer, {var.initializer.inputs[1]: values_dict["W"].T + 10.0})


class Network:
    def __init__(self, *layers):
        self.layers = layers

    def get_all_layers_deep(self):
        return self.layers


@pytest.mark.parametrize("later", [False, True])
def test_layer_that_imports_its_parameters_itself(trained, later):
    with opened({"encoder/W": (30, 20), "output/W_transposed": (5, 20)}) as model:
        model.fill(-1.0)
        network = Network(TransposingLayer(model.variables["output/W_transposed"]))
        loader = CustomCheckpointLoader(trained, list(model.variables.values()), network=network)
        assert loader.missing_var_names == []
        if later:
            loader.set_as_custom_init()
            run_custom_post_inits(model.variables.values(), model.session)
        else:
            loader.load_now(model.session)
        assert {name: value.ravel()[0] for name, value in model.values().items()} == {
            "encoder/W": 1.0,
            "output/W_transposed": 13.0,
        }


def test_values_are_set_when_the_network_is_initialized(trained):
    with opened({**SHAPES, "other/W": (3,)}) as model:
        variables = model.variables
        loader = CustomCheckpointLoader(trained, [var for name, var in variables.items() if name != "other/W"])
        loader.set_as_custom_init()
        assert [have_custom_post_init(var) for var in variables.values()] == [True, True, True, False]
        set_custom_post_init(
            variables["encoder/b"], lambda session: session.run(variables["encoder/b"].assign_add([1.0] * 20))
        )
        model.fill(-1.0)
        run_custom_post_inits(variables.values(), model.session)
        values = {name: value.ravel()[0] for name, value in model.values().items()}
    assert values == {"encoder/W": 1.0, "encoder/b": 0.0, "output/W": 3.0, "other/W": -1.0}


def test_save_and_load_is_identity(tmp_path):
    with opened() as model:
        checkpoint = model.save(tmp_path / "m.001")
        before = model.values()
    with opened() as model:
        CustomCheckpointLoader(checkpoint, list(model.variables.values())).load_now(model.session)
        numpy.testing.assert_equal(model.values(), before)
        numpy.testing.assert_equal(content(model.save(tmp_path / "m.002")), content(checkpoint))
