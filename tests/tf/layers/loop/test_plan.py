"""Which layers of a loop run before it, inside of it, and after it, and why. No graph is made for that."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.inspection.template_network import TemplateNetwork
from returnn.tf.layers.loop.frame import Edge
from returnn.tf.layers.loop.graph import LoopGraph, LoopNode
from returnn.tf.layers.loop.plan import check_plan, make_plan
from tests.tf.layers.loop.decoders import DECODERS, EXTERN_DATA

ROOT = Path(__file__).parents[4]


def compiled(name, *, search=False, **options):
    """:return: the loop of a decoder, as far as its plan"""
    net_dict = {**DECODERS[name], "output": {**DECODERS[name]["output"], **options}}
    config = Config({"extern_data": EXTERN_DATA, "behavior_version": 21})
    with tf.Graph().as_default() as graph:
        network = TemplateNetwork.of_net_dict(net_dict, config, train_flag=not search, search_flag=search)
    assert not network.notes.errors
    assert not graph.get_operations()
    return network.layers["output"].compiled


def plan_of(name, **options):
    return compiled(name, **options).plan


def places(plan):
    return [" ".join(plan.at(place)) for place in ("before", "inside", "after")]


# In training, labels are known, so all is before the loop that does not depend on its own past.
TRAINING = {
    "lstm language model": ["output emb s prob", "", ""],
    "attention": ["output emb", "s query energy_in energy weights att", "prob"],
    "attention with weight feedback": ["output emb s query", "feedback energy_in energy weights sum", "att prob"],
    "transformer": ["output emb self ff prob", "", ""],
    "transducer": ["output slow slow_full joint prob is_label slow/data slow/emb slow/output", "", ""],
    "segmental": ["output emb", "start", "segment mean s prob"],
    "scheduled sampling": ["", "emb s prob output", ""],
    "nested loop": ["output emb s inner mean prob", "", ""],
    "without input": ["", "counter end", "output"],
    "with external language model": ["output emb s prob", "", ""],
}
# In search, labels depend on scores, and the end on labels, so all that leads there is inside.
SEARCH = {
    "lstm language model": ["", "emb s prob output end", ""],
    "attention": ["", "emb s query energy_in energy weights att prob output end", ""],
    "attention with weight feedback": [
        "", "emb s query feedback energy_in energy weights att prob output end sum", "",
    ],
    "transformer": ["", "emb self ff prob output end", ""],
    "transducer": ["", "slow slow_full joint prob output is_label slow/data slow/emb slow/output", ""],
    "segmental": ["", "emb start segment mean s prob output end", ""],
    "scheduled sampling": ["", "emb s prob output end", ""],
    "nested loop": ["", "emb s inner mean prob output end", ""],
    "without input": ["", "counter end", "output"],
    "with external language model": [
        "", "emb s prob am_score lm/data lm/emb lm/s lm/output lm lm_score score output end", "",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_in_training(name):
    assert places(plan_of(name)) == TRAINING[name]


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_in_search(name):
    assert places(plan_of(name, search=True)) == SEARCH[name]


@pytest.mark.parametrize("name", DECODERS)
def test_nothing_is_moved_if_the_config_says_so(name):
    plan = plan_of(name, optimize_move_layers_out=False)
    own = [p for p in plan.placements.values() if not p.reason.startswith("inside of ")]
    assert {(p.place, p.reason) for p in own} == {("inside", "option optimize_move_layers_out=False")}
    assert not plan.at("before")
    assert not plan.at("after")


@pytest.mark.parametrize(
    ("name", "search", "layer", "reason"),
    [
        ("lstm language model", False, "s", "uses only emb"),
        ("lstm language model", True, "end", "the loop needs it to know when to end"),
        ("attention", False, "emb", "uses only prev:output"),
        ("attention", False, "s", "depends on its own past, by 'prev:att'"),
        ("attention", False, "weights", "'att' needs it"),
        ("attention", False, "prob", "nothing in the loop needs it"),
        ("attention with weight feedback", False, "feedback", "depends on its own past, by 'prev:sum'"),
        ("transducer", False, "slow", "uses only prev:output, prev:is_label"),
        ("transducer", False, "slow/emb", "inside of 'slow'"),
        ("segmental", False, "start", "depends on its own past, by 'prev:start'"),
        ("scheduled sampling", False, "emb", "depends on its own past, by 'prev:output'"),
        ("nested loop", False, "inner", "uses only base:encoder, s"),
        ("with external language model", True, "lm/s", "'lm/output' needs it"),
    ],
)
def test_reasons(name, search, layer, reason):
    assert plan_of(name, search=search).placements[layer].reason == reason


def test_plan_in_words():
    assert str(plan_of("segmental")) == (
        "loop 'output':\n"
        "  output   before  uses nothing of the loop\n"
        "  emb      before  uses only prev:output\n"
        "  start    inside  depends on its own past, by 'prev:start'\n"
        "  segment  after   nothing in the loop needs it\n"
        "  mean     after   nothing in the loop needs it\n"
        "  s        after   nothing in the loop needs it\n"
        "  prob     after   nothing in the loop needs it"
    )


# Reads graphs of loops, and writes where their layers run.
PLAN_WITHOUT_TENSORFLOW = """
import pickle, sys
sys.modules.update(tensorflow=None, torch=None)  # an import of them is an error
from returnn.tf.layers.loop.plan import make_plan
graphs = pickle.load(sys.stdin.buffer)
pickle.dump({key: make_plan("output", graph) for key, graph in graphs.items()}, sys.stdout.buffer)
"""


def test_plans_are_made_without_tensorflow():
    loops = {(name, search): compiled(name, search=search) for name in DECODERS for search in (False, True)}
    graphs = pickle.dumps({key: loop.graph for key, loop in loops.items()})
    command = [sys.executable, "-c", PLAN_WITHOUT_TENSORFLOW]
    shown = subprocess.run(command, cwd=ROOT, input=graphs, capture_output=True, check=True)
    assert pickle.loads(shown.stdout) == {key: loop.plan for key, loop in loops.items()}


# The plan alone, from a graph of names.


def graph_of(*nodes, **options):
    return LoopGraph({node.path: node for node in nodes}, **options)


def node(path, *edges, **options):
    kinds = {"prev": "prev", "data": "data", "base": "base"}
    parsed = [edge.partition(":") for edge in edges]
    return LoopNode(
        path, "copy", tuple(Edge(kinds[a], b) if sep else Edge("same", a) for a, sep, b in parsed), **options
    )


def test_layers_without_a_form_for_all_frames_stay_inside():
    graph = graph_of(
        node("a", "data:source"),
        node("b", "a", works_on_sequences=False, has_state=True),
        node("c", "a", works_on_sequences=False),
        node("d", "a", must_be_inside="prints each frame"),
        node("output", "b", "c", "d"),
    )
    plan = make_plan("loop", graph)
    check_plan(plan, graph)
    assert [plan.placements[path].reason for path in "bcd"] == [
        "has state", "works on single frames only", "prints each frame",
    ]  # fmt: skip
    assert places(plan) == ["a", "b c d", "output"]


def test_before_a_loop_of_unknown_length_there_is_only_what_is_the_same_in_all_frames():
    graph = graph_of(
        node("const", "base:x"),
        node("frame", "data:source"),
        node("end", "frame"),
        node("output", "frame", "const"),
        conditions=("end",),
        length_is_known=False,
    )
    assert places(make_plan("loop", graph)) == ["const", "frame end", "output"]


def test_what_is_collocated_is_together():
    inside = node("state", "prev:state")
    graph = graph_of(inside, node("other", "data:source", collocate_with=("state",)), node("output", "state"))
    plan = make_plan("loop", graph)
    assert places(plan) == ["", "state other", "output"]
    assert plan.placements["other"].reason == "option collocate_with=['state']"


def test_selected_frames_cannot_be_read_in_the_loop():
    graph = graph_of(
        node("masked", "data:source", selects_frames=True),
        node("s", "masked", "prev:s"),
        node("output", "s"),
    )
    assert places(make_plan("loop", graph)) == ["", "masked s", "output"]
    graph = graph_of(
        node("masked", "data:source", selects_frames=True),
        node("unmasked", "masked", restores_frames=True),
        node("s", "unmasked", "prev:s"),
        node("output", "s"),
    )
    assert places(make_plan("loop", graph)) == ["masked unmasked", "s", "output"]


def test_selected_frames_do_not_mix_with_others():
    masked = node("masked", "data:source", selects_frames=True, mask="mask")
    other = node("other", "data:source", selects_frames=True, mask="mask 2")
    same = node("same", "data:source", selects_frames=True, mask="mask")
    together = graph_of(masked, same, node("output", "masked", "same", "base:x"))
    assert places(make_plan("loop", together)) == ["masked same output", "", ""]
    for mixed in (["masked", "data:source"], ["masked", "other"], ["prev:masked"]):
        plan = make_plan("loop", graph_of(masked, other, same, node("output", *mixed)))
        assert plan.placements["output"].reason == "mixes other frames with those of the mask 'mask'"
        assert plan.place_of("masked") == "inside"
