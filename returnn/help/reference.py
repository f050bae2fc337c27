"""
The pages of reference in the documentation. A test holds that they are up to date.

    python -m returnn.help.reference
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import returnn
from returnn.config.environment import ENVIRONMENT
from returnn.config.options import TABLES, options_of_table
from returnn.config.unsupported_options import NEEDLESS, UNSUPPORTED
from returnn.help.class_pages import class_pages, frontend_page, markdown_table, tasks_page, tools_page
from returnn.help.option_text import default_of, theme_of

FOLDER = Path(returnn.__file__).parent.parent / "docs" / "reference"


def options_page() -> str:
    """:return: the page, in Markdown"""
    parts = [
        "# Options of the config\n\nThis page is made from the declarations in `returnn/config/options` by "
        "`python -m returnn.help.reference`.\n`rnn.py --help NAME` says the same about one option, and who reads it.\n"
        "\nNone counts as not set. Key-value configs and the command line write values as text: `5`, `yes`, `a,b`."
    ]
    for table in TABLES:
        rows = [
            (f"`{name}`", option.kind.expected, _code(default_of(option)), option.purpose)
            for name, option in options_of_table(table).items()
        ]
        parts.append(f"## {theme_of(table)}\n\n{markdown_table(('option', 'values', 'default', 'meaning'), rows)}")
    parts.append(
        f"## Options that are not supported\n\n{markdown_table(('option', 'what to do instead'), _notes(UNSUPPORTED))}"
    )
    parts.append(f"## Options that change nothing\n\n{markdown_table(('option', 'why'), _notes(NEEDLESS))}")
    variables = [(f"`{name}`", text) for name, text in ENVIRONMENT.items()]
    parts.append(f"## Environment variables\n\n{markdown_table(('variable', 'meaning'), variables)}")
    return "\n\n".join(parts) + "\n"


def _notes(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"`{name}`", f"{text[0].upper()}{text[1:]}.") for name, text in sorted(texts.items())]


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def pages() -> dict[str, str]:
    """:return: all pages of reference, name -> Markdown"""
    return {
        "options": options_page(),
        **class_pages(),
        "tasks": tasks_page(),
        "tools": tools_page(),
        "rf": frontend_page(),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf8")
