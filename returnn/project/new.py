"""`returnn new NAME --kind KIND`: writes a folder with a config, and the data that it trains on."""

from __future__ import annotations

import argparse
import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from returnn.datasets.util.audio_file import decode_audio
from returnn.datasets.util.zip_file import ZipReader
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import write_atomic
from returnn.util.system.command_parser import CommandParser

KINDS = {
    "hybrid": "a label for each frame, by LSTMs",
    "ctc": "labels from frames, by LSTMs and CTC",
    "conformer": "labels from frames, by a Conformer and CTC",
    "attention": "labels from frames, by an encoder and a decoder with attention",
    "transducer": "labels from frames, by LSTMs and the sum over all alignments",
    "lm": "language model on words, subwords or characters, by an LSTM",
    "translation": "one text from another, by an encoder and a decoder with attention",
}
_WITH_SEARCH = ("ctc", "conformer", "attention", "transducer", "translation")
_WITH_ATTENTION = ("attention", "translation")
_FORWARD = """    returnn train.config ++task forward  # probabilities of `dev`, into model/probabilities.hdf
    returnn train.config ++task serve    # the same over HTTP
"""
GENERATE_TEXT = """
## Generate text

The last row of the probabilities is about the label (a word, a subword, or a character) after those that are given,
and the input ends with the label 0, whose frame it is:

```python
import numpy
import project_data

import returnn
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.hypothesis_files import words_of

vocab = Vocabulary.create_vocab(**project_data.vocab())
model = returnn.load("train.config")
labels = []  # or those of the first words: list(vocab.get_seq("THE FIRST WORDS")[:-1])
while len(labels) < 30:
    (probabilities,) = model.forward([[*labels, 0]])
    following = probabilities[-1].astype("float64")
    label = numpy.random.choice(vocab.num_labels, p=following / following.sum())
    if label == 0:  # the end
        break
    labels.append(label)
print(words_of(vocab.get_seq_labels(labels)))
```
"""
_PRIORS = "    returnn train.config ++task compute_priors ++output_file model/log_prior.txt    # for a decoder\n"
_SEARCH = """    returnn train.config ++task search   # decodes `dev`, into model/hypotheses.txt, and scores that
    returnn train.config ++task search ++search_data "config:project_data.{data}('test')"    # other data of the folder
"""
_PLOT = "    returnn train.config ++task plot_attention   # draws what the decoder attends to, into model/attention\n"
_DEFAULT_SAMPLE_RATE = 16000  # in Hz
_SUBWORDS = """For subwords, it is `returnn tool make-vocab bpe FOLDER/{name} {source} --size N`, with N of
  them at most. The file `{name}.codes`, which it writes beside the vocabulary, belongs to it. For characters, it is
  `returnn tool make-vocab chars FOLDER/{name} {source}`."""
_SPEECH = """- `train.hdf` and `dev.hdf`, with "data", features of frames, and "classes", labels{labels}.
  Names of labels are those in the file. `returnn tool hdf-dump` writes any data set as such a file."""
_RECORDINGS = f"""
- Or recordings and their texts: `train.zip` and `dev.zip`, and `words.vocab`, the words, of which the first one is
  `</s>` and the second one `<unk>`. `returnn tool make-ogg-zip WAVS TEXTS FOLDER/train.zip` makes an archive of
  a folder with audio, and `returnn tool make-vocab words FOLDER/words --dataset FOLDER/train.zip` the vocabulary.
  {_SUBWORDS.format(name="words", source="--dataset FOLDER/train.zip")}"""
_FILES_OF_DATA = {  # what README.md says of them
    "hybrid": _SPEECH.format(labels=", one for each frame"),
    "ctc": _SPEECH.format(labels="") + _RECORDINGS,
    "conformer": _SPEECH.format(labels="") + _RECORDINGS,
    "attention": _SPEECH.format(labels="; the first label is the end of a sequence, and each sequence ends with it")
    + _RECORDINGS,
    "transducer": _SPEECH.format(labels="") + _RECORDINGS,
    "lm": f"""- `train.txt` and `dev.txt`, or `train.txt.gz` and `dev.txt.gz`, a sentence per line,
- `words.vocab`, the words, of which the first one is `</s>`, the end of a sentence, and the second one `<unk>`.
  `returnn tool make-vocab words FOLDER/words --text FOLDER/train.txt --size N` makes it, of the most frequent words.
  Take a smaller N than `train` has words: from rare ones, which are `<unk>` then, a model learns how probable that is.
  {_SUBWORDS.format(name="words", source="--text FOLDER/train.txt")}""",
    "translation": f"""- `source.train`, `target.train`, `source.dev`, `target.dev`, or these with `.gz`, a sentence
  per line,
- `source.vocab` and `target.vocab`, the words, in that of the target `</s>` as the first one.
  `returnn tool make-vocab words FOLDER/source --text FOLDER/source.train` makes that of the source.
  {_SUBWORDS.format(name="source", source="--text FOLDER/source.train")}""",
}
_NEEDED = {
    "lm": ("train.txt", "dev.txt", "words.vocab"),
    "translation": ("source.train", "target.train", "source.dev", "target.dev", "source.vocab", "target.vocab"),
}
_NEEDED_OF_RECORDINGS = ("train.zip", "dev.zip", "words.vocab")
_TEMPLATES = Path(__file__).parent / "templates"
_SUFFIX = ".template"
_FILES = ("project_data.py", "README.md")
_NAME = re.compile(r"[\w.-]+")


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(prog="returnn new", description=__doc__)
    parser.add_argument("name", help="of the new folder")
    kinds = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    parser.add_argument("--kind", default="attention", help=kinds)
    parser.add_argument(
        "--data",
        help="folder with data of your own: if a file is missing there, it is said which ones are needed. Default: data"
        " is generated",
    )
    return parser


def run(argv: Sequence[str]) -> int:
    """
    :param argv: arguments
    :return: exit status
    """
    args = make_parser().parse_args(argv)
    try:
        files = new_project(args.name, kind=args.kind, data=args.data)
    except UserError as exc:
        log.print_error(f"error: {exc}")
        return 1
    print(f"wrote {', '.join(files)}\n\ncd {args.name}\nreturnn train.config ++task check\nreturnn train.config")
    return 0


def new_project(folder: str, *, kind: str, data: str | None = None) -> list[str]:
    """
    :param folder: the new one
    :param kind: one of `KINDS`
    :param data: folder with files as README.md describes them; None: data is generated by the first training
    :return: files that were written
    :raises UserError: if the folder is there already, or there is no such kind or data
    """
    if kind not in KINDS:
        raise UserError(f"option '--kind': there is no kind {kind!r}.\n  {_hint_of_kinds(kind)}")
    name = os.path.basename(os.path.normpath(folder))
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} is no name for a folder: letters, digits, '_', '.' and '-' are possible.")
    if os.path.exists(folder):
        raise UserError(f"{folder!r} exists already.\n  Remove it, or choose another name.")
    if data is not None and not os.path.isdir(data):
        raise UserError(f"option '--data': there is no folder {data!r}.")
    missing = [] if data is None else _missing_files(kind, data)
    if missing:
        raise UserError(
            f"option '--data': {data!r} has no {', '.join(map(repr, missing))}.\n"
            f"  Kind {kind!r} needs:\n{_FILES_OF_DATA[kind]}"
        )
    values = {
        "NAME": name,
        "KIND": kind,
        "WHAT": KINDS[kind],
        "SEARCH": _tasks_of_search(kind),
        "SAMPLE_RATE": str(_sample_rate(data)),
        "FILES": _FILES_OF_DATA[kind],
        "GENERATE": GENERATE_TEXT if kind == "lm" else "",
        "DATA": repr("data" if data is None else os.path.abspath(data)),
        "IS_GENERATED": str(data is None),
    }
    contents = {"train.config": _filled(kind + ".config", values), **{file: _filled(file, values) for file in _FILES}}
    paths = {os.path.join(folder, file): content for file, content in contents.items()}
    try:
        os.makedirs(folder)  # last: what is wrong with the data leaves no empty folder, which "exists already"
    except OSError as exc:
        raise UserError(f"cannot make the folder {folder!r}: {exc.strerror}.") from exc
    for path, content in paths.items():
        write_atomic(path, content)
    return list(paths)


def _hint_of_kinds(kind: str) -> str:
    nearest = difflib.get_close_matches(kind, KINDS, n=1, cutoff=0.75)  # "transformer" is no "conformer"
    if nearest:
        return f"Did you mean {nearest[0]!r}?"
    known = "".join(f"\n  {name}: {what}" for name, what in KINDS.items())
    return f"Possible:{known}\n  The demos have more (demos/README.md): `returnn --help {kind}` says where."


def _tasks_of_search(kind: str) -> str:
    search = _SEARCH.format(data="translation" if kind == "translation" else "speech") if kind in _WITH_SEARCH else ""
    forward = "" if search else _FORWARD
    return search + forward + (_PLOT if kind in _WITH_ATTENTION else "") + (_PRIORS if kind == "hybrid" else "")


def _sample_rate(data: str | None) -> int:
    """:return: of the first recording, in Hz"""
    path = os.path.join(data or "", "train.zip")
    if data is None or not os.path.exists(path):
        return _DEFAULT_SAMPLE_RATE
    archive = ZipReader(path)
    recordings = [name for name in archive.names() if not name.endswith((".txt", ".txt.gz", "/"))]
    return (
        decode_audio(archive.read(recordings[0]), name=f"{path}, {recordings[0]}")[1]
        if recordings
        else _DEFAULT_SAMPLE_RATE
    )


def _missing_files(kind: str, folder: str) -> list[str]:
    needed = _NEEDED.get(kind, ("train.hdf", "dev.hdf"))
    is_of_recordings = _RECORDINGS in _FILES_OF_DATA[kind] and os.path.exists(os.path.join(folder, "train.zip"))
    if is_of_recordings:
        needed = _NEEDED_OF_RECORDINGS
    return [file for file in needed if not any(os.path.exists(os.path.join(folder, name)) for name in _names(file))]


def _names(file: str) -> tuple[str, ...]:
    """:return: what a file may be called: texts may be compressed"""
    return (file, f"{file}.gz") if file.endswith((".txt", ".train", ".dev")) else (file,)


def _filled(file: str, values: dict[str, str]) -> str:
    text = (_TEMPLATES / f"{file}{_SUFFIX}").read_text(encoding="utf8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], text)
