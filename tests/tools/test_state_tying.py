"""State tyings: made by a rule, and found again in the labels of a data set."""

import numpy
import pytest

from returnn.datasets.hdf.hdf_writer import SimpleHDFWriter
from returnn.datasets.util.allophone import StateTying
from returnn.datasets.util.lexicon import PhoneSeqGenerator

LEXICON = """<lexicon><phoneme-inventory>
<phoneme><symbol>a</symbol></phoneme><phoneme><symbol>b</symbol></phoneme>
<phoneme><symbol>si</symbol><variation>none</variation></phoneme></phoneme-inventory>
<lemma special="silence"><orth>[SILENCE]</orth><phon>si</phon></lemma>
<lemma><orth>ab</orth><phon>a b</phon></lemma><lemma><orth>ba</orth><phon>b a</phon></lemma>
</lexicon>"""
TEXTS = {"c/r/1": "ab ba", "c/r/2": "ba", "c/r/3": "ab ab"}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "lexicon").write_text(LEXICON, encoding="utf8")
    segments = "".join(f'<segment name="{tag[-1]}"><orth>{text}</orth></segment>' for tag, text in TEXTS.items())
    recording = f'<recording name="r" audio="r.wav">{segments}</recording>'
    (tmp_path / "corpus").write_text(f'<corpus name="c">{recording}</corpus>', encoding="utf8")
    return tmp_path


def _labels(files, seed):
    """:return: labels of frames with silence, by tag"""
    generator = PhoneSeqGenerator(
        lexicon_file=str(files / "lexicon"), state_tying_file=str(files / "tying"), allo_num_states=2,
        repetition=0.5, add_silence_beginning=1.0, add_silence_end=1.0,
    )  # fmt: skip
    generator.random_seed(seed)
    return {tag: generator.seq_to_class_idxs(generator.generate_seq(text)) for tag, text in TEXTS.items()}


@pytest.mark.parametrize("kind", ["monophone", "monophone-eow", "full"])
def test_what_was_made_is_found_again(tool, files, kind):
    lexicon = ["--lexicon", files / "lexicon", "--hmm_states", 2]
    make = ["--state_tying_type", kind, "--state_tying_output", files / "tying", "--corpus", files / "corpus"]
    assert tool("extract_state_tying_from_dataset", *lexicon, *make)[0] == 0
    tying = StateTying(str(files / "tying"))
    silence = tying.allo_map["si{#+#}@i@f.0"]
    types = {"classes": (tying.num_classes, 1, "int32")}
    with SimpleHDFWriter(str(files / "data.hdf"), dim=tying.num_classes, ndim=1, extra_type=types) as writer:
        for tag, labels in _labels(files, seed=1).items():
            writer.insert_batch(labels[None], [len(labels)], [tag], {"classes": [labels]})
    extract = ["--dataset", files / "data.hdf", "--corpus", files / "corpus", "--silence", silence]
    options = [*extract, "--state_tying_output", files / "found", "--print_seq", "--print_allos", "--print_targets"]
    status, out, err = tool("extract_state_tying_from_dataset", *lexicon, *options)
    assert (status, err) == (0, "")
    found = dict(line.rsplit(" ", 1) for line in (files / "found").read_text().splitlines())
    assert {state: int(label) for state, label in found.items()} == {
        state: label for state, label in tying.allo_map.items() if label != silence
    }
    assert "3 sequences, 0 left out, 0 states with several labels\n" in out
    assert "c/r/2: ba\nc/r/2: b{#+a}@i.0 b{#+a}@i.1 a{b+#}@f.0 a{b+#}@f.1\n" in out


def test_all_contexts(tool, files):
    options = ["--lexicon", files / "lexicon", "--hmm_states", 1, "--allo_add_all", "--state_tying_type", "monophone"]
    out = tool("extract_state_tying_from_dataset", *options)[1]
    assert out == f"{2 * 3 * 3 * 4 + 4} states, 3 classes\n"


def test_what_is_wrong(tool, files):
    def error(*options):
        return tool("extract_state_tying_from_dataset", *options)[2]

    lexicon = ["--lexicon", files / "lexicon"]
    assert error() == "error: option '--lexicon' is required.\n"
    assert error(*lexicon, "--action", "mak").endswith("Did you mean 'make'?\n")
    assert error(*lexicon).startswith("error: option '--corpus' is required: ")
    assert error(*lexicon, "--state_tying_type", "mono").startswith("error: option '--state_tying_type': there is no ")
    with SimpleHDFWriter(str(files / "a.hdf"), dim=5, ndim=1, extra_type={"classes": (5, 1, "int32")}) as writer:
        labels = numpy.zeros(4, "int32")
        writer.insert_batch(labels[None], [4], ["c/r/1"], {"classes": [labels]})
    data = ["--dataset", files / "a.hdf", "--corpus", files / "corpus"]
    assert error(*lexicon, *data).startswith("error: in no sequence are there as many labels as states.\n")
    assert error(*lexicon, *data, "--allo_add_all") == "error: option '--allo_add_all' is for '--action make'.\n"
