"""Pages of reference about classes that a config can name, tasks and tools. They say what `--help` says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence

from returnn.datasets.core.dataset import Dataset
from returnn.help.class_text import OPTION_COLUMNS, first_sentence, option_row, public_options
from returnn.help.frontend_names import by_module, title_of
from returnn.help.network_classes import common_option_rows, common_options_of, row_of
from returnn.help.topics import KINDS
from returnn.tasks import TASKS
from returnn.tf.layers.options.layer_options import Option, options_of
from returnn.tools.registry import purpose_of, tool_modules
from returnn.torch.optim.own_options import OwnOptions

_TITLES = {
    "layers": "Layers",
    "losses": "Losses",
    "units": "Units of the layer 'rec'",
    "optimizers": "Optimizers of TensorFlow",
    "torch_optimizers": "Optimizers of PyTorch",
    "datasets": "Data sets",
    "vocabularies": "Vocabularies",
}
_BASES = {"datasets": Dataset, "torch_optimizers": OwnOptions}
_NO_OPTIONS = "It has no options of its own."
MADE_BY = "This page is made from the declarations in the code by `python -m returnn.help.reference`."


def class_pages() -> dict[str, str]:
    """:return: name of the page -> Markdown, of each kind of classes"""
    return {kind: _page(kind) for kind in _TITLES}


def tasks_page() -> str:
    """:return: the page, in Markdown"""
    rows = [(f"`{task.name}`", _sentence(task.purpose)) for task in TASKS.values()]
    rows.append(("`config:NAME`", "Calls that function of the config."))
    return f"# Tasks\n\n{MADE_BY}\n`++task NAME` on the command line, or `task = NAME` in the config.\n\n" + (
        f"{markdown_table(('task', 'what it does'), rows)}\n"
    )


def tools_page() -> str:
    """:return: the page, in Markdown"""
    rows = [(f"`{name}`", purpose_of(module)) for name, module in tool_modules().items()]
    return (
        f"# Tools\n\n{MADE_BY}\n`returnn tool NAME --help` says the options of one. See [Tools](../tools.md).\n\n"
        + (f"{markdown_table(('tool', 'what it does'), rows)}\n")
    )


def frontend_page() -> str:
    """:return: the page, in Markdown"""
    parts = [
        f"# Functions and modules of rf\n\n{MADE_BY}\n`import returnn.frontend as rf`. `rnn.py --help NAME` explains "
        "each; see [Models in Python](../models_in_python.md)."
    ]
    for module, names in by_module().items():
        rows = [(f"`{entry.name}`", entry.about) for entry in names]
        parts.append(f"## {module.removeprefix('returnn.frontend.')}\n\n{title_of(module)}")
        parts.append(markdown_table(("name", "what it is"), rows))
    return "\n\n".join(parts) + "\n"


def markdown_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """:return: a table, in Markdown"""
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _page(kind: str) -> str:
    names = _names_by_class(kind)
    common = options_of(_BASES[kind]) if kind in _BASES else common_options_of(kind)
    overview = [(f"[{', '.join(of)}](#{_anchor(of)})", first_sentence(cls)) for cls, of in names]
    parts = [
        f"# {_TITLES[kind]}\n\n{MADE_BY}\n`rnn.py --help NAME` says the same about one of them.",
        markdown_table(("name", "what it is"), overview),
    ]
    rows = common_option_rows() if kind == "layers" else [option_row(option) for option in public_options(common)]
    if rows:
        text = f"{_text_of(OwnOptions)}\n\n" if kind == "torch_optimizers" else ""
        parts.append(f"## Options of all\n\n{text}{_options_table(rows)}")
    for cls, of in names:
        options = [option for option in public_options(options_of(cls)) if not _is_common(option, common)]
        parts += [
            f"## {', '.join(of)}",
            _text_of(cls),
            _options_table(map(row_of(kind), options)) if options else _NO_OPTIONS,
        ]
    return "\n\n".join(parts) + "\n"


def _names_by_class(kind: str) -> list[tuple[type, list[str]]]:
    """:return: each class, with all its names"""
    found: dict[type, list[str]] = {}
    for name in KINDS[kind].shown_names():
        found.setdefault(KINDS[kind].get_class(name), []).append(name)
    return list(found.items())


def _is_common(option: Option, common: Mapping[str, Option]) -> bool:
    return option.name in common and common[option.name].init is option.init


def _options_table(rows: Iterable[tuple[str, str, str]]) -> str:
    shown = [
        (f"`{name}`", default if default in ("", "required") else f"`{default}`", text) for name, default, text in rows
    ]
    return markdown_table(OPTION_COLUMNS, shown)


def _text_of(cls: type) -> str:
    """:return: the documentation; what is indented is code in Markdown, too, but needs a line before it"""
    text = inspect.cleandoc(cls.__doc__ or "").strip()
    return re.sub(r"^(?! )(.+)\n(?= {4})", r"\1\n\n", text, flags=re.MULTILINE)


def _anchor(names: Sequence[str]) -> str:
    """:return: what Markdown makes of the title"""
    return re.sub(r"[^\w -]", "", ", ".join(names).lower()).replace(" ", "-")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
