"""What words that CTC has found are compared with."""

import numpy
import pytest

import returnn.frontend as rf
from returnn.config import Config
from returnn.tf.engine.outputs.hypotheses import check_words
from returnn.tf.inspection.config_check import check_config
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import tf, tf1

WORDS = ["ab", "ca"]
LETTERS, PHONEMES, PARTS = ["a", "b", "c"], ["AH", "B", "K"], ["a@@", "b", "c@@"]


def options(tmp_path, labels, target):
    """:return: of a config with a lexicon of two words"""
    spelled = [("ab", labels[0], labels[1]), ("ca", labels[2], labels[0].removesuffix("@@"))]
    if labels is PARTS:
        labels = [*labels, "a"]
    (tmp_path / "lexicon").write_text("".join(f"{' '.join(line)}\n" for line in spelled))

    def data_of(names):
        kind = "CharacterTargets" if names is LETTERS else "Vocabulary"  # that one joins them without spaces
        vocab = {"class": kind, "vocab_file": None, "labels": names, "unknown_label": None}
        return {"dim": len(names), "sparse": True, "vocab": vocab}

    decoder = {"class": "ctc_decode", "from": "output", "beam_size": 4, "lexicon": str(tmp_path / "lexicon")}
    return {
        "behavior_version": 30,
        "task": "search",
        "search_output_layer": "found",
        "search_metrics": ["wer"],
        "extern_data": {"data": {"dim": 4}, "classes": data_of(labels), "words": data_of(WORDS)},
        "network": {
            "output": {
                "class": "softmax",
                "n_out": len(labels) + 1,
                "from": "data",
                "loss": "ctc",
                "target": "classes",
            },
            "decision": {**decoder, "num_best": 2, "target": target},
            "found": {"class": "decide", "from": "decision", "target": target},
        },
    }


def network_of(made):
    config = Config(made)
    network = TFNetwork(config=config, search_flag=True)
    network.construct_from_dict(
        {**config.typed_dict["network"], "found": {**made["network"]["found"], "is_output_layer": True}}
    )
    return network


@pytest.mark.parametrize(
    ("labels", "target"), [(LETTERS, "classes"), (PARTS, "classes"), (PHONEMES, "words"), (LETTERS, "words")]
)
def test_words_are_compared_with_what_makes_words(labels, target, tmp_path):
    made = options(tmp_path, labels, target)
    assert check_config(Config(made)).errors == []
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf1.Session() as session:
        network = network_of(made)
        check_words(network.get_layer("found"))
        out = network.get_layer("found").output
        assert out.sparse_dim.vocab.labels == WORDS
        data = network.extern_data.data["data"]
        session.run(tf1.global_variables_initializer())
        feed = {data.raw_tensor: numpy.zeros((2, 5, 4)), data.get_time_dim_tag().dyn_size: [5, 3], data.batch.dim: 2}
        assert session.run(out.raw_tensor, feed).max() < len(WORDS)


def test_words_are_not_compared_with_phonemes(tmp_path):
    made = options(tmp_path, PHONEMES, "classes")
    expected = (
        "option 'search_metrics': layer 'decision' (class 'ctc_decode') has words, such as 'ab', but its target"
        " 'classes' has labels that make no words: 'AH B'.\n  Set its 'target' to data with words; "
    )
    errors = check_config(Config(made)).errors
    assert [error.startswith(expected) for error in errors] == [True]
    assert check_config(Config({**made, "search_metrics": None})).errors == []
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        check_words(network_of(made).get_layer("found"))
    assert str(info.value).startswith(expected)
