"""Networks of templates, against the recorded parameters of all golden cases, and without any graph."""

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tensor import Dim, batch_dim
from returnn.tf.inspection.dims_text import dims_text
from returnn.tf.inspection.report import inspect_network
from returnn.tf.inspection.template_network import TemplateNetwork
from tests.golden import golden
from tests.golden.test_golden import FOLDER, PENDING

CASES = list(golden.iter_cases([str(FOLDER / "cases")]))
NAMES = [path[len(str(FOLDER / "cases")) + 1 : -len(".config")] for path in CASES]


@pytest.fixture(autouse=True)
def empty_graph():
    with tf.Graph().as_default() as graph:
        yield graph
        assert not graph.get_operations(), "templates need no operations"


# With a constant condition, only one of two layers is made, whose parameters have the same names but other shapes.
ONE_OF_TWO = {"found/cond_subnetwork_train_flag"}


@pytest.mark.filterwarnings("ignore")  # cases use deprecated options on purpose
@pytest.mark.parametrize(
    "path", [p for p, name in zip(CASES, NAMES, strict=True) if name not in PENDING | ONE_OF_TWO], ids=str
)
def test_parameters_are_those_of_the_recorded_network(path):
    config, options = golden._load_config(path)
    golden._set_behavior_version(config)
    report = inspect_network(dict(config.typed_dict["network"]), config, title="case", is_search=options.search)
    assert not report.errors
    with numpy.load(path.replace(".config", ".npz")) as arrays:
        wanted = {key.removeprefix("par:"): arrays[key].size for key in arrays if key.startswith("par:")}
    sizes = {param.name: param.size for param in report.params if param.name in wanted}
    assert sizes == wanted  # the recordings leave out what is no float


def _network(net_dict, **options):
    config = Config({"extern_data": {"data": {"dim": 5}, "classes": {"dim": 3, "sparse": True}}})
    return TemplateNetwork.of_net_dict(net_dict, config, **options)


def test_a_chain_of_a_thousand_layers():
    net_dict = {"0": {"class": "copy", "from": "data"}}
    net_dict.update({str(i): {"class": "copy", "from": str(i - 1)} for i in range(1, 1000)})
    net_dict["output"] = {"class": "copy", "from": "999"}
    network = _network(net_dict)
    assert not network.notes.errors
    assert dims_text(network.get_layer("output").output) == "[B, time:data, 5]"


def test_lengths_are_forgotten_as_dims_outlive_the_network():
    dim = Dim(None, name="own-time")
    loop = {
        "output": {"class": "choice", "target": "classes", "beam_size": 2, "from": "prob", "initial_output": 0},
        "prob": {"class": "softmax", "from": "prev:output", "target": "classes"},
        "end": {"class": "compare", "from": "output", "value": 0},
    }
    net_dict = {
        "loop": {"class": "rec", "from": [], "unit": loop, "axis": dim, "max_seq_len": 5},
        "output": {"class": "length", "from": "loop", "axis": dim},
    }
    for _ in range(2):
        network = _network(net_dict, search_flag=True, train_flag=False)
        assert not network.notes.errors
        assert not network.get_layer("loop").compiled.inputs.has_known_length
        assert dim.dyn_size_ext is None
        assert batch_dim.dyn_size_ext is None


def test_shared_parameters_count_once():
    linear = {"class": "linear", "from": "data", "n_out": 4, "activation": None}
    network = _network(
        {
            "a": linear,
            "b": {**linear, "reuse_params": "a"},
            "c": {**linear, "reuse_params": {"map": {"W": "a", "b": None}}},
            "output": {"class": "combine", "kind": "add", "from": ["a", "b", "c"]},
        }
    )
    assert {name: param.shape for name, param in network.notes.params.items()} == {
        "a/W": (5, 4), "a/b": (4,), "c/b": (4,),
    }  # fmt: skip


def test_code_of_a_user_is_not_run():
    network = _network(
        {
            "eval": {"class": "eval", "from": "data", "eval": "1 / 0", "out_type": {"dim": 7, "shape": (None, 7)}},
            "output": {"class": "copy", "from": "eval"},
        }
    )
    assert not network.notes.errors
    assert network.get_layer("output").output.dim == 7
