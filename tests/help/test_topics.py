import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import returnn
from returnn.config.options import OPTIONS
from returnn.config.unsupported_options import NEEDLESS, UNSUPPORTED
from returnn.datasets import basic, generating
from returnn.datasets.core.seq_order import KNOWN_SEQ_ORDERINGS
from returnn.datasets.util.text_post_process import _FACTORIES, _FUNCTIONS
from returnn.help.class_text import first_sentence, public_options
from returnn.help.frontend_names import frontend_names
from returnn.help.network_classes import NETWORK_KINDS
from returnn.help.option_text import option_text, readers_of
from returnn.help.reference import FOLDER, pages
from returnn.help.topics import KINDS, help_text
from returnn.help.torch_optimizers import torch_optimizers
from returnn.tasks import TASKS
from returnn.tf.layers.options.layer_options import options_of
from returnn.tools.registry import tool_modules
from returnn.torch.optim.optimizer_choice import optimizer_classes
from returnn.torch.optim.own_options import OwnOptions
from returnn.util.errors import ConfigError

ROOT = Path(returnn.__file__).parent.parent


def test_pages_of_reference_are_up_to_date():
    for name, text in pages().items():
        assert (FOLDER / f"{name}.md").read_text(encoding="utf8") == text, f"{name}: python -m returnn.help.reference"
    assert {path.stem for path in FOLDER.glob("*.md")} == {*pages(), "index"}


def test_all_options_are_listed():
    listed = help_text("options", width=200)
    assert [name for name in OPTIONS if f"\n{name} " not in listed] == []


@pytest.mark.parametrize(("kind", "names"), [("tasks", TASKS), ("tools", tool_modules())])
def test_all_tasks_and_tools_are_listed(kind, names):
    lines = help_text(kind, width=100).splitlines()
    listed = [line.split()[0] for line in lines[3:] if not line.startswith(" ")]
    assert [name for name in listed if name != "config:NAME"] == list(names)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_each_option_is_explained(name):
    text = option_text(name, 100)
    assert text.startswith(f"option {name!r}")
    assert OPTIONS[name].purpose in text
    assert OPTIONS[name].kind.expected in text


def test_an_option():
    assert help_text("num_epochs", width=100) == (
        "option 'num_epochs'\n\nThe last epoch.\n\nvalues:  an integer from 0\ndefault: 5\n"
        "read by: returnn/engine/epochs.py, returnn/engine/learning_rate_control.py, returnn/sprint/interface.py"
    )


def test_an_option_that_is_a_dict_has_its_keys():
    text = help_text("file_cache_opts", width=100)
    assert "keys of the dict:" in text
    assert "\ncleanup_files_always_older_than_days " in text
    assert "\nmodulo " in help_text("use_last_best_model", width=100)
    text = help_text("preload_from_files", width=100)
    assert "\nfilename " in text
    assert "\nname " not in text  # which the entry has outside of its dict
    text = help_text("pretrain", width=100)
    assert "\nrepetitions " in text
    assert "original_network_json" not in text  # it is `network`
    assert " required " not in text


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.keys_of])
def test_each_key_of_options_that_are_dicts_has_a_meaning(name):
    header, *rows = help_text(name, width=1000).partition("keys of the dict:\n\n")[2].partition("\n\n")[0].splitlines()
    assert len(rows) > 2
    for row in rows:
        assert len(row) > header.index("meaning"), row


def test_what_help_refers_to_has_help_too():
    names = [*OPTIONS, "LayerBase", *(name for kind in KINDS.values() for name in kind.names())]
    mentioned = {}
    for name in names:
        text = help_text(name, width=10_000)
        assert "this module" not in text, name
        for other in re.findall(r"[Ss]ee `([^`]+)`", text):
            if f"\n{other} " not in text:  # it is not another option there
                mentioned.setdefault(other, name)
    assert {"seq_order", "ReuseParams", "LSTMCell", "get_post_processor_function"} <= mentioned.keys()
    for other, name in mentioned.items():
        assert help_text(other, width=100).count("\n") > 1, name


def test_things_that_help_refers_to():
    assert help_text("ReuseParams", width=100).startswith(
        "class 'ReuseParams' of returnn.tf.layers.core.reuse_params\n"
    )
    assert help_text("beam_search", width=100).startswith("function 'beam_search' of returnn.frontend.search.")
    assert [name for name in KNOWN_SEQ_ORDERINGS if f"`{name}" not in help_text("seq_order", width=100)] == []
    assert all(name in help_text("get_post_processor_function", width=100) for name in [*_FUNCTIONS, *_FACTORIES])
    assert help_text("returnn.datasets.util.vocab_file", width=100).startswith(
        "module returnn.datasets.util.vocab_file\n"
    )
    assert help_text("vocab_file", width=100).startswith(
        "option 'vocab_file' of\n"
    )  # a module of that name is no answer


def test_what_models_in_python_use():
    assert "\n\nmark_as_loss(loss, name, *, dims=None, scale=1.0," in help_text("mark_as_loss", width=100)
    assert help_text("RunCtx.mark_as_loss", width=100) == help_text("mark_as_loss", width=100)
    text = help_text("ForwardCallbackIface", width=100)
    assert "\n\nprocess_seq(*, seq_tag, outputs)\n  Called for each sequence" in text
    assert "no options" not in text
    assert "\n\nlabel_smoothing(prob, smoothing," in help_text("rf.label_smoothing", width=100)
    assert help_text("label_smoothing", width=100).startswith("option 'label_smoothing' of")
    assert "\n\ncross_entropy(*, estimated, target, axis, estimated_type)\n" in help_text("rf.cross_entropy", width=100)


def test_options_without_a_reader():
    assert help_text("train_in_eval", width=100) == (
        f"option 'train_in_eval' is not supported: {UNSUPPORTED['train_in_eval']}."
    )
    assert help_text("flat_net_construction", width=100) == (
        f"option 'flat_net_construction' changes nothing: {NEEDLESS['flat_net_construction']}."
    )


def test_readers_that_go_over_names():
    assert readers_of("maximize_grad_norm") == ["returnn/tf/updater/gradient_options.py"]
    readers = ["returnn/tf/updater/gradient_options.py", "returnn/torch/optim/gradients.py"]
    assert readers_of("gradient_noise") == readers


@pytest.mark.parametrize("kind", KINDS)
def test_all_classes_have_a_whole_sentence(kind):
    listed = help_text(kind, width=300)
    for name in KINDS[kind].names():
        sentence = first_sentence(KINDS[kind].get_class(name))
        assert re.fullmatch(r"\S.{8,}\.", sentence), name
        assert f"\n{name.removesuffix('optimizer')} " in listed


def test_a_sentence_does_not_end_inside_of_code():
    class Sums:
        """Up to each frame: `x[0] + ... + x[t]`. The first one is 0."""

    assert first_sentence(Sums) == "Up to each frame: `x[0] + ... + x[t]`."


def test_descriptions_of_axes():
    text = help_text("axis", width=120)
    assert re.search(r'^"B", "batch" +the batch axis$', text, re.MULTILINE)
    assert "`" not in text


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("Vocabulary", "seq_postfix"),
        ("BytePairEncoding", "bpe_file"),
        ("SentencePieces", "add_eos"),
        ("ExtractAudioFeatures", "window_len"),
        ("newbob", "newbob_relative_error_threshold"),
        ("HDFDataset", "use_cache_manager"),
    ],
)
def test_classes(name, part):
    text = help_text(name, width=110)
    assert re.search(rf"{name!r}( of returnn\.datasets\.[\w.]+)?\n", text)
    assert f"\n{part} " in text


def test_what_a_class_of_data_of_ones_own_needs():
    for name in ("GeneratingDataset", "MapDatasetBase", "Vocabulary"):
        module = re.match(rf".* {name!r} of ([\w.]+)\n", help_text(name, width=110))[1]
        assert hasattr(importlib.import_module(module), name)
    assert ":return: its data: `DatasetSeq(seq_idx, " in help_text("generate_seq", width=110)
    assert generating.DatasetSeq is basic.DatasetSeq


@pytest.mark.parametrize("name", KINDS["vocabularies"].names())
def test_vocabularies_accept_what_help_shows(name):
    cls = KINDS["vocabularies"].get_class(name)
    options = options_of(cls)
    cls._check_options(dict.fromkeys(set(options) - {"self"}))
    assert ("vocab_file" in options) == (name not in ("SentencePieces", "HuggingFaceTokenizer", "Utf8ByteTargets"))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in sorted(KINDS.keys() - NETWORK_KINDS.keys() - {"torch_optimizers"})
        for name in KINDS[kind].names()
    ],
)
def test_further_options_are_handed_on_to_the_base(kind, name):
    """As `--help` shows the options of the base, then."""
    cls = KINDS[kind].get_class(name)
    parameters = inspect.signature(cls.__init__).parameters.values()
    for further in [param.name for param in parameters if param.kind is param.VAR_KEYWORD]:
        assert f"**{further}" in inspect.getsource(cls.__init__).partition("super().__init__(")[2]


def test_name_of_an_option_and_of_a_layer_has_both():
    text = help_text("window", width=110)
    assert text.startswith("2 things have the name 'window'.\n\noption 'window'\n---------------\n\n")
    assert "\n\nlayer class 'window'\n--------------------\n\n" in text
    text = help_text("adam", width=110)
    assert "\n\noptimizer of TensorFlow 'adam'\n---" in text
    assert "\n\noptimizer of PyTorch 'adam'\n---" in text
    assert "---" not in help_text("softmax_over_spatial", width=110)


def test_unknown_name_suggests_options_too():
    with pytest.raises(ConfigError, match=r"there is nothing of the name 'bacth_size'.\n  Did you mean 'batch_size'"):
        help_text("bacth_size", width=80)


@pytest.mark.parametrize(
    "name", ["", "batch_size", "attention_plot", "options", "axis", "ReuseParams", "linear", *KINDS]
)
def test_help_imports_no_tensorflow_and_no_pytorch_which_take_seconds(name):
    code = (
        "import sys; from returnn.__main__ import main; "
        f"status = main(['rnn.py', '--help', *{[name] if name else []!r}]); "
        "print({'tensorflow', 'torch'} & sys.modules.keys(), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr.strip() == "set()"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("hybrid", ["rnn.py new NAME --kind hybrid"]),
        ("conformer", ["rnn.py new NAME --kind conformer"]),
        ("perplexity", ["++task", "eval", "calculate_exp_loss"]),
        ("export", ["returnn tool export-model", "returnn tool compile-tf-graph", "docs/tools.md"]),
        ("exporting", ["returnn tool export-model"]),
        ("onnx", ["returnn tool torch-export-to-onnx"]),
        ("bleu", ["loss 'bleu'", "returnn tool score", "search_metrics"]),
        ("wer", ["returnn tool score", "search_metrics"]),
        ("serve", ["task 'serve'", "web_server_port"]),
        ("score", ["tool 'score'"]),
        ("checkpoint", ["returnn tool convert-checkpoint", "docs/reliability.md"]),
        ("resume", ["++task", "train", "docs/reliability.md"]),
        ("beam", ["++task", "search", "ctc_decode", "docs/concepts/beams.md"]),
        ("text generation", ["rnn.py new NAME --kind lm", "docs/tutorial/decoding.md"]),
        ("fusion", ["docs/tutorial/decoding.md", "Shallow fusion with a network"]),
        ("ensemble", ["docs/tutorial/decoding.md", "An ensemble"]),
        ("zebra beams", ["ctc_decode", "docs/concepts/beams.md"]),
        ("SpecAugment", ["docs/tutorial/your_own_data.md"]),
        ("augmentation", ["docs/tutorial/your_own_data.md"]),
        ("spec augment", ["docs/tutorial/your_own_data.md"]),
        ("learning curves", ["rnn.py view", "learning_curve_file", "docs/viewer.md"]),
        ("transformer", ["demos/translation/README.md", "demos/rf_translation/README.md"]),
        ("label smoothing", ["rf.label_smoothing", "Cross entropy between the target and the output"]),
        ("relative position", ["rf.RelPosSelfAttention"]),
        ("self-attention", ["rf.SelfAttention", "layer class  self_attention"]),
        ("warm-up", ["dynamic_learning_rate"]),
        ("warmup", ["dynamic_learning_rate"]),
        ("Beam Search", ["search", "ctc_decode"]),
        ("ignore_missing", ["load_ignore_missing_vars", "preload_from_files"]),
    ],
)
def test_words_find_what_is_called_otherwise(words, parts):
    text = help_text(words, width=200)
    assert [part for part in parts if part not in text] == []
    assert "decide_keep_beam" not in help_text("wer", width=200)  # "were" is another word


@pytest.mark.parametrize("task", TASKS)
def test_each_task_has_help(task):
    assert TASKS[task].purpose in help_text(task, width=200)


@pytest.mark.parametrize("tool", tool_modules())
def test_each_tool_has_help(tool):
    assert f"returnn tool {tool} --help" in help_text(tool, width=200)


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop"])
def test_epsilon_of_an_optimizer_is_the_one_in_effect(name):
    assert re.search(r"epsilon +1e-16 .*default: option `optimizer_epsilon`", help_text(name, width=200))


def test_optimizers_of_pytorch_are_as_help_says():
    classes = optimizer_classes()
    assert classes.keys() <= torch_optimizers().keys()  # an older one has fewer
    for name, cls in classes.items():
        options = {option.name: option.default for option in public_options(options_of(torch_optimizers()[name]))}
        true = {key: x.default for key, x in inspect.signature(cls).parameters.items() if key not in ("params", "lr")}
        assert {key: options.get(key, "missing") for key in true} == true, name


@pytest.mark.parametrize("option", inspect.signature(OwnOptions).parameters)
def test_further_options_of_optimizers_of_pytorch_are_found(option):
    assert f"\n{option} " in help_text("adamw", width=110)
    assert "optimizer of PyTorch" in help_text(option, width=110)


def test_all_that_models_in_python_use_is_listed():
    text = help_text("rf", width=200)
    for name in (
        "rf.label_smoothing",
        "rf.RotaryPosSelfAttention",
        "returnn.frontend.search.beam_search",
    ):
        assert re.search(rf"^{re.escape(name)} +\S", text, flags=re.MULTILINE), name
    page = (ROOT / "docs" / "models_in_python.md").read_text(encoding="utf8")
    assert set(re.findall(r"rf\.[A-Za-z]\w+(?=\()", page)) <= {entry.name for entry in frontend_names()}
    assert all(entry.about for entry in frontend_names())


def test_a_module_is_found_by_its_path():
    for theme in ("encoder", "decoder"):
        assert help_text(f"rf.{theme}.transformer", width=99).startswith(
            f"module returnn.frontend.{theme}.transformer\n"
        )
    assert "returnn.frontend.encoder" in help_text("rf.encoder.transformer.TransformerEncoder", width=99)


def test_options_of_a_dataclass_have_the_meanings_beside_them():
    text = help_text("OwnCtcOptions", width=200)
    assert "blank_index          -1       negative: counted from the end" in text


def test_words_about_nothing():
    for words in ("zebra", "zebra okapi", " "):
        with pytest.raises(ConfigError, match="there is nothing of the name"):
            help_text(words, width=80)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("seq_postfix", ["vocabulary", "BytePairEncoding", "indices that `get_seq` appends"]),
        ("add_delayed_seq_data", ["data set", "LmDataset", 'adds the key "delayed"']),
        ("seq_ordering", ["data set", "... (", '"laplace:.1000"']),
        ("beam_width", ["loss", "ctc"]),
        ("pool_size", ["layer class", "pool"]),
        ("is_output_layer", ["of all layers (--help LayerBase)"]),
    ],
)
def test_options_that_stand_in_dicts(name, parts):
    text = help_text(name, width=200)
    assert text.startswith(f"option {name!r} of")
    assert all(part in text for part in parts), text
