from __future__ import annotations

import zipfile

import pytest

from returnn.datasets.audio.librispeech import LibriSpeechCorpus
from returnn.util.errors import ConfigError, UserError
from tests.datasets.corpus_checks import check_corpus_dataset, seqs_of_epoch
from tests.datasets.util.test_feature_extraction import sawtooth, wav_bytes

CHARS = {"labels": list("ABCD "), "vocab_file": None, "unknown_label": None}
AUDIO = {"features": "raw"}
# The content decides on the decoder, so wav will do.
FILES = {
    "dev-clean/84/121/84-121.trans.txt": "84-121-0000 A B\n84-121-0001 C\n",
    "dev-clean/84/121/84-121-0000.flac": wav_bytes(sawtooth(0.1)),
    "dev-clean/84/121/84-121-0001.flac": wav_bytes(sawtooth(0.2)),
    "dev-clean/99/3/99-3.trans.txt": "99-3-0000 ABC D\n",
    "dev-clean/99/3/99-3-0000.flac": wav_bytes(sawtooth(0.3)),
    "dev-other/7/8/7-8.trans.txt": "7-8-0000 DDDD D\n",
    "dev-other/7/8/7-8-0000.flac": wav_bytes(sawtooth(0.3)),
}
TAGS = ["dev-clean-84-121-0000", "dev-clean-84-121-0001", "dev-clean-99-3-0000", "dev-other-7-8-0000"]


def write_folder(path, files=FILES):
    for name, content in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def write_zips(path):
    for part in ("dev-clean", "dev-other"):
        with zipfile.ZipFile(path / f"{part}.zip", "w") as file:
            for name, content in FILES.items():
                if name.startswith(part):
                    ogg = ".ogg" if name.endswith(".flac") else ""
                    file.writestr(f"LibriSpeech/{name}{ogg}", content)
    return str(path)


@pytest.fixture(params=["folder", "zip"])
def corpus(request, tmp_path):
    if request.param == "folder":
        return {"path": write_folder(tmp_path), "audio": AUDIO, "chars": CHARS}
    return {"path": write_zips(tmp_path), "audio": AUDIO, "chars": CHARS, "use_zip": True, "use_ogg": True}


def test_properties(corpus):
    check_corpus_dataset(lambda **opts: LibriSpeechCorpus(**corpus, prefix="dev", **opts))


def test_data(corpus):
    dataset = LibriSpeechCorpus(**corpus, prefix="dev")
    dataset.init_seq_order()
    assert dataset.get_all_tags() == TAGS
    tag, data = seqs_of_epoch(dataset)[2]
    assert tag == TAGS[2]
    assert data["data"].shape == (2400, 1)
    assert str(data["raw"]) == "ABC D"
    assert data["classes"].tolist() == [0, 1, 2, 4, 3]
    assert dataset.transs["dev-clean", 99, 3, 0] == "ABC D"


def test_parts_subset_and_tags(corpus):
    assert LibriSpeechCorpus(**corpus, prefix="dev-other").get_all_tags() == TAGS[3:]
    assert len(LibriSpeechCorpus(**corpus, prefix="dev", fixed_random_subset=2).get_all_tags()) == 2
    tags = LibriSpeechCorpus(**corpus, prefix="dev-other", seq_tag_format="%(subdir)s/%(seq)i").get_all_tags()
    assert tags == ["dev-other/0"]


def test_epoch_wise_filter(corpus):
    rules = {(1, 1): {"max_mean_len": 2, "use_new_filter": True}, (2, None): {"subdirs": ["dev-other"]}}
    dataset = LibriSpeechCorpus(**corpus, prefix="dev", epoch_wise_filter=rules)
    dataset.init_seq_order(epoch=1)
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == TAGS[:2]
    dataset.init_seq_order(epoch=9)
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == TAGS[3:]


def test_post_processing(corpus):
    vocab = {"labels": list("abcd "), "vocab_file": None, "unknown_label": None}
    dataset = LibriSpeechCorpus(**{**corpus, "chars": vocab}, prefix="dev-other", orth_post_process="lowercase")
    dataset.init_seq_order()
    assert str(seqs_of_epoch(dataset)[0][1]["raw"]) == "dddd d"


def test_wrong_input_is_named(tmp_path):
    opts = {"path": write_folder(tmp_path), "prefix": "dev", "audio": AUDIO, "chars": CHARS}
    with pytest.raises(ConfigError, match=r"starts with 'train'.\n  There are: dev-clean, dev-other"):
        LibriSpeechCorpus(**{**opts, "prefix": "train"})
    with pytest.raises(UserError, match=r"cannot be read \(No such file or directory\)"):
        LibriSpeechCorpus(**{**opts, "path": "nowhere"})
    with pytest.raises(ConfigError, match="only one of the options 'targets', 'chars' and 'bpe'"):
        LibriSpeechCorpus(**opts, targets={})
    with pytest.raises(ConfigError, match="option 'use_cache_manager' is only possible with 'use_zip'"):
        LibriSpeechCorpus(**opts, use_cache_manager=True)
    (tmp_path / "dev-clean/99/3/99-3-0000.flac").unlink()
    dataset = LibriSpeechCorpus(**opts)
    dataset.init_seq_order()
    with pytest.raises(UserError, match=r"cannot be read \(No such file or directory\).*\n.*99-3-0000.flac"):
        seqs_of_epoch(dataset)
    (tmp_path / "dev-empty").mkdir()
    with pytest.raises(UserError, match="there are no recordings"):
        LibriSpeechCorpus(**{**opts, "prefix": "dev-empty"})
