"""Tasks other than training: their files, and the methods of the engine behind them."""

import ast
import gzip
import re

import h5py
import numpy
import pytest
import tensorflow as tf

from returnn.datasets.core.dataset import Dataset
from returnn.datasets.static import StaticDataset
from returnn.engine import output_statistics
from returnn.engine.data import load_dataset
from returnn.engine.hypothesis_files import FILE_FORMATS, read_hypotheses, words_of, write_hypotheses
from returnn.forward_iface import ForwardCallbackIface
from returnn.log import log
from returnn.tf.engine import Engine, tasks
from returnn.util.errors import ConfigError, UserError
from tests.tf.engine.small_config import config

DEV = {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}
DECODER = {
    "output": {
        "class": "rec", "from": [], "target": "classes", "max_seq_len": 6,
        "unit": {
            "output": {"class": "choice", "target": "classes", "beam_size": 3, "from": "prob", "initial_output": 0},
            "end": {"class": "compare", "from": "output", "value": 1},
            "emb": {"class": "linear", "activation": None, "n_out": 3, "from": "prev:output"},
            "prob": {"class": "softmax", "from": ["emb", "base:enc"], "target": "classes", "loss": "ce"},
        },
    },
    "enc": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"},
    "decision": {"class": "decide", "from": "output"},
}  # fmt: skip
FRAMES = {
    "hidden": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data"},
    "output": {"class": "softmax", "from": "hidden", "loss": "ce", "target": "classes"},
    "best": {"class": "reduce", "mode": "argmax", "axis": "F", "from": "output", "is_output_layer": True},
}


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])
    yield
    tf.compat.v1.reset_default_graph()


def task_config(folder, task, **options):
    base = {"task": task, "allow_random_model_init": True, "network": FRAMES, "dev": DEV, "eval": DEV}
    return config(folder, **{**base, **options})


def engine_of(folder, task, *, search=False, **options):
    engine = Engine(task_config(folder, task, **options))
    engine.use_search_flag = search
    engine.use_eval_flag = not search
    engine.init_network_from_config()
    return engine


# Files with hypotheses.

NBEST = {"seq-1": [(-0.5, "ab@@ c d"), (-1.25, "x")], "seq 'ü'": [(-3.0, "")]}
ONE_BEST = {"seq-1": "▁ab c ▁d", "other": ""}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("results", [NBEST, ONE_BEST, {"seq-1": {"a": "x y", "b": [(-1.0, "z")]}}], ids=str)
@pytest.mark.parametrize("file_format", ["py", "json"])
def test_written_hypotheses_can_be_read(file_format, results, suffix, tmp_path):
    file = str(tmp_path / f"hyps{suffix}")
    write_hypotheses(file, results, file_format)
    assert read_hypotheses(file) == results


def test_subwords_become_words(tmp_path):
    file = str(tmp_path / "hyps")
    write_hypotheses(file, NBEST, "words")
    assert (tmp_path / "hyps").read_text() == "abc d\n\n"
    write_hypotheses(file, {"seq-1": "▁ab c ▁d"}, "tagged")
    assert (tmp_path / "hyps").read_text() == "seq-1 abc d\n"
    assert read_hypotheses(file) == {"seq-1": "abc d"}
    write_hypotheses(file, NBEST, "py-words")
    assert read_hypotheses(file)["seq-1"] == [(-0.5, "abc d"), (-1.25, "x")]
    write_hypotheses(file, NBEST, "txt")
    assert (tmp_path / "hyps").read_text() == "ab@@ c d\n\n"


@pytest.mark.parametrize(
    ("text", "words"), [("a@@ b c@@", "ab c@@"), ("a b", "a b"), ("▁a b ▁c", "ab c"), ("", ""), ("a@@ @@ b", "ab")]
)
def test_words_of(text, words):
    assert words_of(text).replace("c@@", "c@@") in (words, words.removesuffix("@@"))


def test_the_compressed_file_is_the_same_each_time(tmp_path):
    for name in ("a.gz", "b.gz"):
        write_hypotheses(str(tmp_path / name), NBEST, "txt")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"ab@@ c d\n\n"


def test_wrong_files_and_formats(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no format 'pi'\."):
        write_hypotheses(str(tmp_path / "x"), NBEST, "pi")
    with pytest.raises(ConfigError, match="lines of text cannot have several layers, 'a', 'b'"):
        write_hypotheses(str(tmp_path / "x"), {"seq": {"a": "", "b": ""}}, "words")
    assert not (tmp_path / "x").exists()
    (tmp_path / "y").write_text("{\nbroken")
    with pytest.raises(UserError, match="has no hypotheses: SyntaxError"):
        read_hypotheses(str(tmp_path / "y"))


# Search.


@pytest.mark.parametrize("file_format", FILE_FORMATS)
def test_search_writes_each_format(file_format, tmp_path):
    file = tmp_path / "hyps"
    options = {"search_data": "dev", "search_output_file": str(file), "search_output_file_format": file_format}
    tasks.search_task(task_config(tmp_path, "search", network=DECODER, **options))
    text = file.read_text()
    if file_format in ("txt", "words", "tagged"):
        assert len(text.splitlines()) == 5
    else:
        hypotheses = read_hypotheses(str(file))
        assert len(hypotheses) == 5
        for beam in hypotheses.values():
            scores = [score for score, _ in beam]
            assert len(beam) == 3
            assert scores == sorted(scores, reverse=True)


def test_scores_of_a_search(tmp_path, capsys):
    data = {"class": "StaticDataset", "data": [], "output_dim": {"data": (9, 2), "classes": (2, 1)}}
    data["data"] = [
        {"data": numpy.ones((3, 9), "float32"), "classes": numpy.array([0, 1, 1][: i + 1], "int32")} for i in range(3)
    ]
    classes = {"dim": 2, "sparse": True, "vocab": {"class": "Vocabulary", "vocab_file": None, "labels": ["yes", "no"]}}
    options = {"network": DECODER, "search_data": data, "search_output_layer": "decision"}
    with pytest.raises(ConfigError, match="option 'search_metrics': the labels of the target 'classes' have no names"):
        tasks.search_task(task_config(tmp_path, "search", search_metrics=["wer"], **options))
    assert "its labels have no names" not in capsys.readouterr().out
    features = {**DECODER, "decision": {**DECODER["decision"], "target": "data"}}
    with pytest.raises(ConfigError, match="option 'search_metrics': the target 'data' has no labels, but features"):
        tasks.search_task(task_config(tmp_path, "search", search_metrics=["wer"], **{**options, "network": features}))
    tasks.search_task(task_config(tmp_path, "search", search_output_file=str(tmp_path / "numbers"), **options))
    assert "its labels have no names, so hypotheses are numbers. Give 'classes' a 'vocab'" in capsys.readouterr().out
    without = {**data, "data": [{"data": seq["data"]} for seq in data["data"]], "output_dim": {"data": (9, 2)}}
    new = {**options, "search_data": without, "extern_data": {"data": {"dim": 9}, "classes": classes}}
    with pytest.raises(ConfigError, match=r"the references are the data 'classes', which is not there.*\n.* None\."):
        tasks.search_task(task_config(tmp_path, "search", search_metrics=["wer"], **new))
    options.update(extern_data={"data": {"dim": 9}, "classes": classes}, search_metrics=["wer", "cer", "bleu"])
    tasks.search_task(task_config(tmp_path, "search", **options))
    out = capsys.readouterr().out
    assert "; 6 words), " in out
    assert "Each reference ends with" not in out
    assert "search: CER " in out
    assert "search: BLEU " in out
    classes["vocab"]["eos_label"] = "no"  # with which the second and the third reference end
    tasks.search_task(task_config(tmp_path, "search", **options))
    assert "; 4 words), " in capsys.readouterr().out


def test_search_without_anything_to_search_asks_for_no_data(tmp_path):
    with pytest.raises(ConfigError, match=r"'output' has .*expected labels"):
        tasks.search_task(task_config(tmp_path, "search", dev=None, eval=None))


def test_search_of_several_layers(tmp_path):
    options = {
        "search_output_layer": ["output", "decision"],
        "search_output_file_format": "py",
        "search_do_eval": False,
    }
    file = tmp_path / "hyps.gz"
    tasks.search_task(task_config(tmp_path, "search", network=DECODER, search_output_file=str(file), **options))
    for entry in read_hypotheses(str(file)).values():
        assert entry["decision"] == entry["output"][0][1]


def test_single_sequences_give_what_a_pass_gives(tmp_path):
    engine = engine_of(tmp_path, "search", search=True, network=DECODER)
    dataset = load_dataset(engine.config, "dev")
    results = engine.search(dataset, output_layer_names="output", do_eval=False)
    dataset.init_seq_order(epoch=1)
    num_ops = None
    for seq_idx in range(5):
        dataset.load_seqs(seq_idx, seq_idx + 1)
        expected = results[dataset.get_tag(seq_idx)]
        single = engine.search_single(dataset, seq_idx)
        by_frames = engine.search_single_seq(dataset.get_data(seq_idx, "data"))
        assert [text for _, text in single] == [text for _, text in expected]
        numpy.testing.assert_allclose([s for s, _ in by_frames], [s for s, _ in expected], rtol=1e-5)
        assert num_ops in (None, len(engine.tf_session.graph.get_operations()))
        num_ops = len(engine.tf_session.graph.get_operations())
    with pytest.raises(ConfigError, match=r"but it has the shape \(3,\)"):
        engine.search_single_seq([1, 2, 3])
    with pytest.raises(ConfigError, match="has no 'vocab'"):
        engine.search_single_string_to_string_seq("a b")
    engine.finalize()


def test_data_without_targets_can_be_decoded(tmp_path):
    data = {"class": "StaticDataset", "data": [{"data": numpy.ones((3, 9), "float32")}], "output_dim": {"data": (9, 2)}}
    options = {
        "network": {**DECODER, "decision": {**DECODER["decision"], "loss": "edit_distance", "target": "classes"}}
    }
    file = str(tmp_path / "hyps")
    options.update(search_data=data, search_output_file=file, search_output_file_format="py")
    tasks.search_task(task_config(tmp_path, "search", search_do_eval=False, **options))
    assert list(read_hypotheses(file)) == ["seq-0"]
    with pytest.raises(ConfigError, match="extern_data: the dataset has no 'classes'"):
        tasks.search_task(task_config(tmp_path, "search", **options))


def test_text_to_text(tmp_path):
    (tmp_path / "vocab").write_text("{'a': 0, 'b': 1, 'c': 2}")
    vocab = {"vocab_file": str(tmp_path / "vocab"), "unknown_label": None}
    network = {
        "embedding": {"class": "linear", "activation": None, "n_out": 3, "from": "data"},
        "output": {"class": "reduce", "mode": "argmax", "axis": "F", "from": "prob"},
        "prob": {"class": "softmax", "from": "embedding", "target": None, "n_out": 3},
    }
    extern_data = {"data": {"dim": 3, "sparse": True, "vocab": vocab}}
    engine = engine_of(tmp_path, "search", search=True, network=network, extern_data=extern_data)
    text = engine.search_single_string_to_string_seq("a b c a")
    assert len(text.split()) == 4
    assert text.split()[0] == text.split()[3]
    engine.finalize()


# Forward.


class Collect(ForwardCallbackIface):
    def __init__(self):
        self.calls = []
        self.outputs = {}

    def init(self, *, model):
        self.calls.append(model)

    def process_seq(self, *, seq_tag, outputs):
        self.outputs[seq_tag] = outputs

    def finish(self):
        self.calls.append("finish")


def test_forward_with_callback_gives_single_sequences(tmp_path):
    callback = Collect()
    tasks.forward(task_config(tmp_path, "forward", forward_callback=lambda: callback, forward_batch_size=200))
    assert len(callback.calls) == 2
    assert len(callback.outputs) == 5
    for outputs in callback.outputs.values():
        probabilities, best = outputs["output"], outputs["best"]
        assert probabilities.dims[0].dimension == len(probabilities.raw_tensor) == len(best.raw_tensor)
        numpy.testing.assert_allclose(probabilities.raw_tensor.sum(-1), 1.0, rtol=1e-5)
        numpy.testing.assert_array_equal(probabilities.raw_tensor.argmax(-1), best.raw_tensor)
        assert best.sparse_dim.dimension == 2


def test_forward_of_one_sequence(tmp_path):
    engine = engine_of(tmp_path, "forward")
    callback = Collect()
    dataset = load_dataset(engine.config, "dev")
    engine.forward_with_callback(dataset=dataset, callback=callback)
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, 1)
    output = engine.forward_single(dataset, 0)
    expected = callback.outputs[dataset.get_tag(0)]["output"].raw_tensor
    numpy.testing.assert_allclose(output, expected, rtol=1e-5)
    constant = engine.get_const_tensor("three", 3)
    assert engine.get_const_tensor("three", 3) is constant
    engine.finalize()


def test_labels_cannot_be_combined(tmp_path):
    engine = engine_of(tmp_path, "forward")
    with pytest.raises(ConfigError, match="combine_labels='a' is not supported"):
        engine.forward_to_hdf(load_dataset(engine.config, "dev"), str(tmp_path / "x.hdf"), combine_labels="a")
    engine.finalize()


# Evaluation.

CTC = {
    "hidden": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data"},
    "output": {"class": "softmax", "n_out": 3, "from": "hidden", "loss": "ctc", "target": "classes"},
    "decision": {
        "class": "ctc_decode",
        "from": "output",
        "target": "classes",
        "loss": "edit_distance",
        "only_on_search": True,
    },
}
FRAMES_WITH_SIZE = {**FRAMES, "output": {**FRAMES["output"], "n_out": 2}}
DATA_OF_CTC = {"class": "StaticDataset", "output_dim": {"data": (9, 2), "classes": (2, 1)}, "data": [
    {"data": numpy.ones((6, 9), "float32"), "classes": numpy.array([0, 1], "int32")},
    {"data": numpy.zeros((4, 9), "float32"), "classes": numpy.array([1], "int32")},
]}  # fmt: skip


@pytest.mark.parametrize(
    ("network", "data"), [(FRAMES_WITH_SIZE, DEV), (FRAMES, DEV), (CTC, DATA_OF_CTC)], ids=["n_out", "no n_out", "ctc"]
)
def test_targets_that_only_losses_use_are_fed(network, data, tmp_path, capsys):
    tasks.evaluate(task_config(tmp_path, "eval", network=network, dev=data, eval=None))
    assert "dev: error output " in capsys.readouterr().out


def test_targets_of_ctc_that_are_too_long_are_named(tmp_path):
    seqs = [
        *DATA_OF_CTC["data"],
        {"data": numpy.ones((4, 9), "float32"), "classes": numpy.array([1, 1, 0, 0], "int32")},
    ]
    loss_opts = {}
    network = {**CTC, "output": {**CTC["output"], "loss_opts": loss_opts}}
    options = {"network": network, "dev": {**DATA_OF_CTC, "data": seqs}, "eval": None}
    with pytest.raises(UserError) as info:
        tasks.evaluate(task_config(tmp_path, "eval", **options))
    name = "ignore_longer_outputs_than_inputs"
    assert str(info.value) == (
        "dev, step 0, sequences 'seq-1', 'seq-2', 'seq-0':\n"
        "  layer 'output' (class 'softmax'): loss 'ctc': the target of the sequence 'seq-2' has 4 labels, which need 6"
        " frames; number of its frames: 4. Longer frames, 'max_seq_length', or"
        f" 'loss_opts': {{'ctc_opts': {{'{name}': True}}}}, which leaves it out."
    )
    loss_opts["ctc_opts"] = {name: True}
    tasks.evaluate(task_config(tmp_path, "eval", **options))


@pytest.mark.parametrize("beam_size", [1, 4])
def test_search_of_ctc(beam_size, tmp_path, capsys):
    network = {**CTC, "decision": {**CTC["decision"], "beam_size": beam_size}}
    options = {"search_data": DATA_OF_CTC, "search_output_layer": "decision", "search_output_file": str(tmp_path / "x")}
    options["search_output_file_format"] = "py"
    tasks.search_task(task_config(tmp_path, "search", network=network, **options))
    assert set(read_hypotheses(str(tmp_path / "x"))) == {"seq-0", "seq-1"}
    assert "search: error decision " in capsys.readouterr().out


@pytest.mark.parametrize("searches_in_python", [False, True])
def test_hypotheses_of_ctc(searches_in_python, tmp_path):
    more = {"insertion_score": 1e-9} if searches_in_python else {}
    beam = {**CTC["decision"], "beam_size": 20, "num_best": 9, "loss": None, **more}
    network = {**CTC, "beam": beam, "decision": {"class": "decide", "from": "beam", "target": "classes"}}
    seqs = [*DATA_OF_CTC["data"], {"data": numpy.ones((1, 9), "float32"), "classes": numpy.array([0], "int32")}]
    options = {
        "search_data": {**DATA_OF_CTC, "data": seqs},
        "search_output_file_format": "py",
        "search_output_file": str(tmp_path / "x"),
    }
    for layer in ("beam", "decision"):
        tasks.search_task(task_config(tmp_path, "search", network=network, search_output_layer=layer, **options))
        (tmp_path / "x").rename(tmp_path / layer)
    beams, best = (read_hypotheses(str(tmp_path / name)) for name in ("beam", "decision"))
    for tag, hypotheses in beams.items():
        scores, texts = zip(*hypotheses, strict=True)
        assert texts[0] == best[tag]
        assert list(scores) == sorted(scores, reverse=True)
        assert len(set(texts)) == len(texts) == (3 if tag == "seq-2" else 9)  # of one frame: nothing, and two labels
        total = numpy.exp(scores).sum()
        assert total <= 1 + 1e-5
        assert total == pytest.approx(1) or tag != "seq-2"


def test_scores_of_each_sequence(tmp_path):
    columns = ["seq_tag", "perplexity", "score", "error", "pos_score", "pos_error", "seq_len"]
    options = {"eval_output_file": str(tmp_path / "scores"), "eval_output_file_per_seq": str(tmp_path / "seqs"),
               "output_per_seq_format": columns, "output_per_seq_file_format": "py", "eval": None}  # fmt: skip
    tasks.evaluate(task_config(tmp_path, "eval", **options))
    scores = ast.literal_eval((tmp_path / "scores").read_text())
    rows = ast.literal_eval((tmp_path / "seqs").read_text())
    assert len(rows) == 5
    for tag, row in rows.items():
        assert list(row) == columns
        assert row["seq_tag"] == tag
        assert row["perplexity"] == pytest.approx(numpy.exp(row["score"]))
        assert len(row["pos_score"]) == len(row["pos_error"]) == row["seq_len"]
        assert numpy.mean(row["pos_score"]) == pytest.approx(row["score"], rel=1e-4)
        assert numpy.mean(row["pos_error"]) == pytest.approx(row["error"], rel=1e-4)
    num_frames = sum(row["seq_len"] for row in rows.values())
    total = sum(row["score"] * row["seq_len"] for row in rows.values())
    assert scores["dev_score"] == pytest.approx(total / num_frames, rel=1e-4)


def test_scores_of_each_sequence_as_lines_for_each_data_set(tmp_path, capsys):
    options = {
        "eval_output_file_per_seq": str(tmp_path / "seqs"),
        "output_per_seq_format": ["seq_tag", "seq_len", "perplexity"],
    }
    tasks.evaluate(task_config(tmp_path, "eval", **options))
    log_lines = capsys.readouterr().out.splitlines()
    for name in ("dev", "eval"):
        assert f"{name}: wrote {str(tmp_path / f'seqs.{name}')!r}, in the order of the corpus" in log_lines
        lines = (tmp_path / f"seqs.{name}").read_text().splitlines()
        assert len(lines) == 5
        for line in lines:
            tag, length, perplexity = line.split(";")
            assert tag.startswith("seq-")
            assert int(length) > 0
            assert float(perplexity) > 1


def test_scores_of_each_sequence_by_a_loss_over_whole_sequences(tmp_path):
    network = {**CTC, "output": {**CTC["output"], "loss_opts": {"beam_width": 1}}}
    options = {"network": network, "dev": DATA_OF_CTC, "eval": None, "eval_output_file": str(tmp_path / "scores"),
               "eval_output_file_per_seq": str(tmp_path / "seqs"), "output_per_seq_file_format": "py"}  # fmt: skip
    tasks.evaluate(task_config(tmp_path, "eval", output_per_seq_format=["score", "error", "seq_len"], **options))
    total = ast.literal_eval((tmp_path / "scores").read_text())
    rows = ast.literal_eval((tmp_path / "seqs").read_text())
    num_labels = {"seq-0": 2, "seq-1": 1}
    assert {tag: row["seq_len"] for tag, row in rows.items()} == num_labels  # of which the score is the mean
    for column in ("score", "error"):
        mean = sum(row[column] * num_labels[tag] for tag, row in rows.items()) / 3
        assert total[f"dev_{column}"] == pytest.approx(mean, rel=1e-4)
    with pytest.raises(ConfigError, match="the loss 'output' has no 'pos_score'"):
        tasks.evaluate(task_config(tmp_path, "eval", output_per_seq_format=["pos_score"], **options))


@pytest.mark.parametrize("knows_order", [True, False])
def test_scores_of_each_sequence_in_the_order_of_the_corpus(knows_order, tmp_path, monkeypatch, capsys):
    data = {**DATA_OF_CTC, "seq_ordering": "reverse"}
    if not knows_order:
        monkeypatch.setattr(StaticDataset, "get_all_tags", Dataset.get_all_tags)
    options = {"network": CTC, "dev": data, "eval": None, "output_per_seq_format": ["seq_tag"]}
    tasks.evaluate(task_config(tmp_path, "eval", eval_output_file_per_seq=str(tmp_path / "seqs"), **options))
    tags = ["seq-0", "seq-1"] if knows_order else ["seq-1", "seq-0"]
    assert (tmp_path / "seqs").read_text().splitlines() == tags
    order = "the corpus" if knows_order else "the batches, as the data set does not know that of the corpus"
    assert f", in the order of {order}\n" in capsys.readouterr().out


def test_forward_of_what_a_layer_makes_beside_its_output(tmp_path):
    align = {"class": "forced_align", "from": "output", "align_target": "data:classes", "topology": "ctc",
             "input_type": "prob"}  # fmt: skip
    options = {"network": {**CTC, "align": align}, "forward_data": DATA_OF_CTC, "output_file": str(tmp_path / "x.hdf")}
    tasks.forward(task_config(tmp_path, "forward", forward_output_layer="align/scores", **options))
    with h5py.File(tmp_path / "x.hdf") as file:
        assert file["inputs"].shape == (2,)
        assert (file["inputs"][:] < 0).all()
    for layer in ("align/score", "hidden/scores"):
        with pytest.raises(ConfigError, match=f"there is no layer '{layer}'"):
            tasks.forward(task_config(tmp_path, "forward", forward_output_layer=layer, **options))


def test_no_perplexity_of_a_loss_that_is_no_cross_entropy(tmp_path):
    layer = {"class": "linear", "n_out": 9, "from": "data", "target": "data", "loss": "mse"}
    options = {"network": {"output": layer}, "eval_output_file_per_seq": str(tmp_path / "seqs")}
    with pytest.raises(ConfigError, match="the loss 'output' has no 'perplexity'"):
        tasks.evaluate(task_config(tmp_path, "eval", output_per_seq_format=["perplexity"], **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss_name": "outptu"}, "option 'loss_name': there is no loss 'outptu'.\n  Did you mean 'output'"),
        ({"output_per_seq_format": ["scores"]}, "there is no column 'scores'.\n  Did you mean 'score'"),
        ({"output_per_seq_file_format": "text"}, "option 'output_per_seq_file_format': got 'text', but "),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_wrong_options_of_evaluation(options, message, tmp_path):
    with pytest.raises(ConfigError) as info:
        tasks.evaluate(task_config(tmp_path, "eval", eval_output_file_per_seq=str(tmp_path / "x"), **options))
    assert message in str(info.value)


def test_perplexity_is_shown(tmp_path, capsys):
    tasks.evaluate(task_config(tmp_path, "eval"))
    (loss, perplexity) = re.findall(
        r"dev: .*loss output ([\d.]+), perplexity output ([\d.]+)", capsys.readouterr().out
    )[0]
    assert float(perplexity) == pytest.approx(numpy.exp(float(loss)), rel=1e-4)


def test_exp_of_losses(tmp_path):
    engine = engine_of(tmp_path, "eval", calculate_exp_loss=True)
    engine.eval_datasets = {"dev": load_dataset(engine.config, "dev")}
    scores = engine.eval_model()["dev"]
    assert scores["loss:output:exp"] == pytest.approx(numpy.exp(scores["loss:output"]))
    assert "dev_score_output:exp" in engine.learning_rate_control.get_epoch_error_dict(engine.epoch)
    assert engine.eval_model(skip_already_evaluated=True) == {}
    engine.finalize()


# Statistics.


def test_statistics_of_data(tmp_path):
    data = {
        "class": "StaticDataset",
        "data": [{"data": numpy.array(frames, "float32")} for frames in ([[1.0], [2.0]], [[6.0]])],
        "output_dim": {"data": (1, 2)},
    }
    prefix = str(tmp_path / "stats")
    output_statistics.analyze_data(task_config(tmp_path, "analyze_data", train=data, statistics_save_prefix=prefix))
    assert numpy.loadtxt(f"{prefix}.mean.txt") == pytest.approx(3.0)
    assert numpy.loadtxt(f"{prefix}.std_dev.txt") == pytest.approx(numpy.std([1, 2, 6]))
    for options, message in (
        ({"data_key": "dat"}, "option 'data_key': there is no data key 'dat'"),
        ({"analyze_dataset": "tran"}, "option 'analyze_dataset': there is no data 'tran'"),
        ({"statistics_dtype": "int"}, "option 'statistics_dtype': there is no dtype 'int'"),
    ):
        with pytest.raises(ConfigError, match=message):
            output_statistics.analyze_data(task_config(tmp_path, "analyze_data", train=data, **options))


def test_statistics_of_outputs(tmp_path, capsys):
    engine = engine_of(tmp_path, "analyze")
    results = engine.analyze(load_dataset(engine.config, "dev"), None)
    assert results["output"]["mean"].sum() == pytest.approx(1.0)
    assert results["best"]["label_frequencies"].sum() == pytest.approx(1.0)
    with pytest.raises(ConfigError, match="Did you mean 'mean'"):
        engine.analyze(load_dataset(engine.config, "dev"), ["men"])
    engine.finalize()
    tasks.analyze(task_config(tmp_path, "analyze", analyze_dataset="dev", statistics=["max"]))
    assert "output max: [" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["prior.txt", "prior.xml"])
def test_priors(name, tmp_path):
    file = tmp_path / name
    tasks.compute_priors(task_config(tmp_path, "compute_priors", output_file=str(file), analyze_dataset="dev"))
    lines = [line for line in file.read_text().splitlines() if not line.startswith("<")]
    values = numpy.array(" ".join(lines).split(), "float64")
    assert numpy.exp(values).sum() == pytest.approx(1.0)
    assert ('<vector-f32 size="2">' in file.read_text()) == name.endswith(".xml")


def test_priors_of_another_layer_than_the_output(tmp_path):
    hidden = {"class": "softmax", "from": "data", "n_out": 3}  # made, although the output does not need it
    loop = {"class": "rec", "from": "data", "unit": {"p": {**hidden, "from": "data:source", "n_out": 4}}}
    loop["unit"]["output"] = {"class": "reduce", "mode": "argmax", "axis": "F", "from": "p"}
    network = {"hidden": hidden, "output": loop}
    for name, num in (("hidden", 3), ("output/p", 4)):
        file = tmp_path / f"{num}.txt"
        options = {"network": network, "output_file": str(file), "analyze_dataset": "dev", "forward_output_layer": name}
        tasks.compute_priors(task_config(tmp_path, "compute_priors", **options))
        values = numpy.loadtxt(file)
        assert values.shape == (num,)
        assert numpy.exp(values).sum() == pytest.approx(1.0)


def test_priors_are_of_all_parts_of_the_data(tmp_path, capsys):
    for name, parts in (("one", 1), ("all", 3)):
        options = task_config(tmp_path, "compute_priors", output_file=str(tmp_path / name), analyze_dataset="dev")
        options.set("dev", {**options.typed_dict["dev"], "partition_epoch": parts})
        tasks.compute_priors(options)
    numpy.testing.assert_allclose(numpy.loadtxt(tmp_path / "one"), numpy.loadtxt(tmp_path / "all"), rtol=1e-5)
    assert "wrote the log prior of 5 sequences to" in capsys.readouterr().out


def test_priors_need_a_file_and_probabilities(tmp_path):
    with pytest.raises(ConfigError, match="option 'output_file' is required"):
        tasks.compute_priors(task_config(tmp_path, "compute_priors"))
    network = {"output": {"class": "linear", "activation": None, "n_out": 2, "from": "data"}}
    with pytest.raises(ConfigError, match="the means of 'output' sum up to"):
        tasks.compute_priors(task_config(tmp_path, "compute_priors", network=network, output_file="x"))
    network["output"] = {"class": "reduce", "mode": "argmax", "axis": "F", "from": "data"}
    with pytest.raises(ConfigError, match=r"(?s)the layer 'output' has .* 'forward_output_layer' says which layer"):
        tasks.compute_priors(task_config(tmp_path, "compute_priors", network=network, output_file="x"))


# Other tasks.


def test_setup_of_a_training_alone(tmp_path):
    tasks.init_training(config(tmp_path, task="nop_init_net_train"))
    assert list(tmp_path.iterdir()) == []


def test_cleanup_asks_before(tmp_path, monkeypatch, capsys):
    tasks.train(config(tmp_path, num_epochs=4))
    options = {"cleanup_old_models": {"keep_last_n": 1, "keep_best_n": 0, "keep": []}}
    monkeypatch.setattr("builtins.input", lambda text: "n")
    tasks.cleanup_old_models(config(tmp_path, **options))
    assert "nothing is deleted; superfluous are models of epochs 1, 2, 3" in capsys.readouterr().out
    assert (tmp_path / "net.001.index").exists()
    monkeypatch.setattr("builtins.input", lambda text: "y")
    tasks.cleanup_old_models(config(tmp_path, **options))
    assert sorted(path.name for path in tmp_path.glob("*.index")) == ["net.004.index"]


def test_newest_model_that_is_deleted_meanwhile_is_replaced_by_the_next_one(tmp_path, capsys):
    tasks.train(config(tmp_path, num_epochs=2, network=FRAMES))
    moved = [path for path in tmp_path.iterdir() if path.name.startswith("net.002.")]
    epochs = []

    def get_network(epoch):
        epochs.append(epoch)
        for path in moved:
            path.rename(tmp_path / path.name.replace("net.002.", "net.003."))
        moved.clear()
        return FRAMES

    tasks.evaluate(task_config(tmp_path, "eval", network=None, get_network=get_network))
    output = capsys.readouterr().out
    assert f"'{tmp_path}/net.002' was deleted meanwhile, so '{tmp_path}/net.003' is taken" in output
    assert epochs == [2, 3]


@pytest.mark.parametrize("option", ["load", "load_epoch"])
def test_model_that_was_asked_for_is_not_replaced(option, tmp_path):
    tasks.train(config(tmp_path, num_epochs=1, network=FRAMES))

    def get_network(epoch):
        for path in tmp_path.glob("net.001.*"):
            path.unlink()
        return FRAMES

    value = {"load": str(tmp_path / "net.001"), "load_epoch": 1}[option]
    with pytest.raises(UserError, match=r"checkpoint '.*net\.001' does not exist|there is no model of epoch 1\."):
        tasks.evaluate(task_config(tmp_path, "eval", network=None, get_network=get_network, **{option: value}))
