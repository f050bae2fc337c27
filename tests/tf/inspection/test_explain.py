"""`++task explain`: the stages of loops in words, and a drawing."""

import copy
import xml.etree.ElementTree

import pytest

import returnn.__main__ as rnn
from returnn.config import Config
from returnn.tf.inspection.loop_text import loop_text
from returnn.tf.inspection.report import inspect_network
from tests.tf.inspection.test_check import NETWORK, no_global_state, options  # noqa: F401 (a fixture)

TEXT = """\
loop 'output' over time:classes: the number of frames is known before
  parse: who uses what
    output     -
    emb        prev:output
    s          emb, prev:att
    query      s
    energy_in  base:keys, query
    energy     energy_in
    weights    energy
    att        weights, base:encoder
    prob       s, att
  infer: output of one frame
    output     choice                [B] of 2 labels
    emb        linear                [B, 4]
    s          rnn_cell              [B, 6]
    query      linear                [B, 7]
    energy_in  combine               [time:data, B, 7]
    energy     linear                [time:data, B, 1]
    weights    softmax_over_spatial  [time:data, B, 1]
    att        generic_attention     [B, 8]
    prob       softmax               [B, 2]
  plan: where each layer runs, and why
    before the loop, all frames at once:
      output  uses nothing of the loop
      emb     uses only prev:output
    inside, frame by frame:
      s          depends on its own past, by 'prev:att'
      query      'energy_in' needs it
      energy_in  'energy' needs it
      energy     'weights' needs it
      weights    'att' needs it
      att        's' needs it
    after the loop, all frames at once:
      prob  nothing in the loop needs it
  emit: what goes in and out of the frames
    reads                     emb           [B, 4]
    keeps for the next frame  prev:att      [B, 8]
    keeps for the next frame  s, state 'c'  [B, 6]
    keeps for the next frame  s, state 'h'  [B, 6]
    writes, for all frames    s             [B, 6]
    writes, for all frames    att           [B, 8]"""


def _loop_text(net_dict, **modes):
    report = inspect_network(copy.deepcopy(net_dict), Config(options()), title="test", **modes)
    return loop_text(report.network.get_layer("output").compiled)


def test_a_loop_in_training():
    assert _loop_text(NETWORK) == TEXT


def test_a_loop_in_search():
    lines = _loop_text(NETWORK, is_search=True).split("\n")
    assert lines[0] == "loop 'output' over output:time: the layer 'end' ends it, after at most 999 frames"
    assert "      end        the loop needs it to know when to end" in lines
    assert "    carries                   beam of 3 hypotheses  scores, and where each came from" in lines
    assert not any("before the loop" in line for line in lines)


def test_a_loop_with_nothing_inside():
    unit = {"output": {"class": "linear", "n_out": 3, "from": "data:source"}}
    text = _loop_text({"output": {"class": "rec", "from": "data", "unit": unit}})
    assert text.endswith("  emit: what goes in and out of the frames\n    there is no loop in the graph")


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (5, "unrolled: 5 frames, one after the other"),
        (None, "option 'unroll' has no effect, as 'max_seq_len' is no number"),
    ],
)
def test_an_unrolled_loop(limit, words):
    unit = {"output": {"class": "linear", "n_out": 3, "from": "data:source"}}
    net_dict = {"output": {"class": "rec", "from": "data", "unit": unit, "unroll": True, "max_seq_len": limit}}
    assert _loop_text(net_dict).split("\n")[0].endswith(f": the number of frames is known before; {words}")


def _run(tmp_path, monkeypatch, *args, **more):
    monkeypatch.chdir(tmp_path)
    text = "\n".join(f"{key} = {value!r}" for key, value in options(**more).items())
    (tmp_path / "my.config").write_text(f"#!rnn.py\n{text}\n", encoding="utf8")
    return rnn.main(["rnn.py", "my.config", "++task", "explain", *args])


def test_svg(tmp_path, monkeypatch, capsys):
    assert _run(tmp_path, monkeypatch) == 0
    out = capsys.readouterr().out
    assert TEXT in out
    assert out.endswith("'++explain_file net.svg' draws the network\n")
    assert list(tmp_path.glob("*.svg")) == []
    assert _run(tmp_path, monkeypatch, "++explain_file", "my.svg") == 0
    assert capsys.readouterr().out.endswith("drawn: my.svg\n")
    root = xml.etree.ElementTree.parse(tmp_path / "my.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for name in ("data:data", "encoder", "keys", "energy_in", "generic_attention", "[time:data, B, 8]"):
        assert name in texts
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "output/s (rnn_cell)\n[B, 6]\ninside the loop: depends on its own past, by 'prev:att'" in titles
    assert "prev:output/att \u2192 output/s: [B, 8]" in titles
    assert "encoder \u2192 output/att: [time:data, B, 8]" in titles


def test_without_loops(tmp_path, monkeypatch, capsys):
    network = {"output": {"class": "softmax", "from": "data", "n_out": 3}}
    assert _run(tmp_path, monkeypatch, network=network) == 0
    assert "there are no loops: each of the 1 layer sees all frames at once\n" in capsys.readouterr().out


def test_png_of_the_search(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    assert _run(tmp_path, monkeypatch, "++explain_mode", "search", "++explain_file", "net.png") == 0
    assert (tmp_path / "net.png").read_bytes().startswith(b"\x89PNG")


def test_another_kind_of_file(tmp_path, monkeypatch, capsys):
    assert _run(tmp_path, monkeypatch, "++explain_file", "net.pdf") == 1
    assert capsys.readouterr().err == (
        "error: picture 'net.pdf': unknown kind of file '.pdf'.\n  Possible: '.svg', '.png'.\n"
    )


def test_another_mode(tmp_path, monkeypatch, capsys):
    assert _run(tmp_path, monkeypatch, "++explain_mode", "searchh") == 1
    assert capsys.readouterr().err == (
        "error: option 'explain_mode': got 'searchh', but expected one of 'training', 'search'.\n"
        "  Did you mean 'search'?\n"
    )


def test_what_can_be_made_of_a_wrong_network(tmp_path, monkeypatch, capsys):
    network = {**copy.deepcopy(NETWORK), "extra": {"class": "linear", "from": "dataa", "is_output_layer": True}}
    assert _run(tmp_path, monkeypatch, network=network) == 1
    out, err = capsys.readouterr()
    assert TEXT in out
    assert err == (
        "error: layer 'extra': there is no layer 'dataa'.\n  Did you mean 'data'?\n"
        "  This part is left out. '++task check' lists all errors.\n"
    )


def test_subnetworks_and_nested_loops_are_boxes(tmp_path, monkeypatch):
    inner = {"output": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 3, "from": "data:source"}}
    unit = {
        "inner": {"class": "rec", "from": "base:block", "unit": inner},
        "last": {"class": "reduce", "mode": "max", "axis": "T", "from": "inner"},
        "output": {"class": "combine", "kind": "add", "from": ["last", "prev:output"]},
    }
    block = {"ff": {"class": "linear", "n_out": 4, "from": "data"}, "output": {"class": "copy", "from": "ff"}}
    network = {
        "block": {"class": "subnetwork", "from": "data", "subnetwork": block},
        "emb": {"class": "linear", "n_out": 3, "from": "data:classes"},
        "output": {"class": "rec", "from": "emb", "unit": unit},
    }
    assert _run(tmp_path, monkeypatch, "++explain_file", "my.svg", network=network) == 0
    root = xml.etree.ElementTree.parse(tmp_path / "my.svg").getroot()
    rectangles = {
        rectangle[0].text.split(" ")[0]: [float(rectangle.get(key)) for key in ("x", "y", "width", "height")]
        for rectangle in root.iter("{http://www.w3.org/2000/svg}rect")
        if len(rectangle)
    }
    for inner_name, outer_name in [
        ("block/ff", "block"),
        ("output/inner", "output"),
        ("output/inner/output", "output/inner"),
    ]:
        x, y, width, height = rectangles[inner_name]
        outer_x, outer_y, outer_width, outer_height = rectangles[outer_name]
        assert outer_x < x < x + width < outer_x + outer_width
        assert outer_y < y < y + height < outer_y + outer_height
