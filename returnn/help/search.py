"""Help that is looked for by words: who asks for "perplexity" does not know yet what is called how."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import returnn
from returnn.config.option import Option
from returnn.config.options import OPTIONS
from returnn.help.class_text import Kind, first_sentence, rows_text
from returnn.help.frontend_names import frontend_names
from returnn.help.option_text import keys_text
from returnn.project.new import GENERATE_TEXT, KINDS
from returnn.tasks import TASKS
from returnn.tf.layers.options.layer_options import options_of
from returnn.tools.registry import purpose_of, tool_modules

_ROOT = Path(returnn.__file__).parent.parent  # its pages are there in a checkout
_PAGES_OF_OTHERS = tuple(
    f"docs/{name}" for name in ("reference", "roadmap.md", "migration.md", "architecture.md", "native.md")
)
_MAX_OF_A_KIND = 8
_WIDTH = 1000  # no line ends within words
_MIN_LENGTH_OF_STEM = 5

_COMMANDS = {
    "rnn.py new": "writes a folder with a config that trains at once: a new project, from templates",
    "rnn.py view": "shows runs in the browser: learning curves, options, pictures, errors",
}


@dataclass(frozen=True)
class Entry:
    """Something that can be found."""

    name: str
    about: str
    text: str = ""  # in which words are looked for, too

    def holds(self, word: re.Pattern[str]) -> bool:
        """:return: whether that word is anywhere"""
        texts = (self.name, self.about, self.text)
        return any(map(word.search, (*texts, *(text.replace("-", "") for text in texts))))  # "warmup" is "warm-up", too


def found_by_words(words: str, kinds: Mapping[str, Kind], width: int, *, with_pages: bool = True) -> str | None:
    """
    :param words: each of them has to be in a name or its description, at the beginning of a word. If they are together
        nowhere, what has some of them
    :param kinds: of classes
    :param width: of the text, in characters
    :param with_pages: also in the documentation, where it was installed
    :return: a line for each task, command, option, class and page; None if there is nothing
    """
    patterns = [re.compile(rf"(?<![^\W_]){_stem(word)}", re.IGNORECASE) for word in re.findall(r"[^\W_]+", words)]
    groups: list[tuple[str, Iterable[Entry]]] = [
        ("++task", (Entry(task.name, task.purpose) for task in TASKS.values())),
        ("command", _commands()),
        ("option", (Entry(name, option.purpose, _keys(option)) for name, option in OPTIONS.items())),
        *((kind.title, _classes(kind)) for kind in kinds.values()),
        ("rf", (Entry(x.name, x.about, x.docstring) for x in frontend_names()) if kinds else ()),
        ("page", _pages() if with_pages else ()),
    ]
    listed = [(title, list(entries)) for title, entries in groups]
    for needed in (all, any) if len(words.split()) > 1 else (all,):  # not of the parts of a name
        rows = [(title, x.name, x.about) for title, entries in listed for x in _best(entries, patterns, needed)]
        if rows:
            break
    return rows_text(["what", "name", "about"], rows, width) if rows else None


def _stem(word: str) -> str:
    """:return: what several forms of a word begin with: "curves" and "curve", "exporting" and "export" """
    if len(word) < _MIN_LENGTH_OF_STEM:  # "wer" is not "were"
        return rf"{re.escape(word)}s?(?![^\W_])"
    return re.escape(re.sub(r"(?<=\w{4})(ing|ion|ed|es|s|e)$", "", word))


def _best(
    entries: Iterable[Entry], words: list[re.Pattern[str]], needed: Callable[[Iterable[bool]], bool]
) -> list[Entry]:
    """:return: those with all words, or any; first those with most of them in the name, then in the line about it"""
    found = [entry for entry in entries if words and needed(map(entry.holds, words))]
    found.sort(key=lambda x: [-sum(bool(word.search(text)) for word in words) for text in (x.name, x.about)])
    return found[:_MAX_OF_A_KIND]


def _keys(option: Option[Any]) -> str:
    return keys_text(option.keys_of, _WIDTH, without=option.no_keys) if option.keys_of else ""


def _commands() -> Iterator[Entry]:
    for name, purpose in _COMMANDS.items():
        yield Entry(name, purpose)
    for kind, what in KINDS.items():
        yield Entry(f"rnn.py new NAME --kind {kind}", f"a new project: {what}", GENERATE_TEXT if kind == "lm" else "")
    for name, module in tool_modules().items():
        yield Entry(f"returnn tool {name}", purpose_of(module))


def _classes(kind: Kind) -> Iterator[Entry]:
    for name in kind.shown_names():
        cls = kind.get_class(name)
        yield Entry(name, first_sentence(cls), " ".join(options_of(cls)))


def _pages() -> Iterator[Entry]:
    """:return: one for each title of the documentation that people read"""
    for path in [path for folder in ("docs", "demos") for path in sorted(_ROOT.joinpath(folder).rglob("*.md"))]:
        name = path.relative_to(_ROOT).as_posix()
        if not name.startswith(_PAGES_OF_OTHERS):
            for part in re.split(r"^#+ ", path.read_text(encoding="utf8"), flags=re.MULTILINE)[1:]:
                yield Entry(name, part.partition("\n")[0], part)
