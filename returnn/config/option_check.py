"""
Misspelt options do nothing, silently, for days. So before the work starts, each option has to have a reader.

The toolkit knows its own options (`returnn.config.options`), and what their values can be. A config may define any
others, as long as it uses them itself: a name that occurs anywhere else in the config, also inside of a string, is a
helper value. A module of which the config takes all names (`from base import *`) is a part of it. What remains is an
error if it looks like a known option, on the command line also if it is less like one. Otherwise it is only mentioned,
as old configs carry many options of old versions.

Some known options have no reader here either. `unsupported_options` says what to use instead.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import os
import re
import sys
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType

from returnn.config.backend_options import CHANGE_NO_RESULT, fits_backend, no_effect_text, wrong_backend_text
from returnn.config.config import Config
from returnn.config.files import ConfigSource
from returnn.config.options import OPTIONS, options_of_table
from returnn.config.options.run import CheckOptions
from returnn.config.options.tasks import EvaluationOptions, ForwardOptions, SearchOptions, StatisticsOptions
from returnn.config.other_names import OTHER_NAMES
from returnn.config.unsupported_options import ADDS_TO, KNOWN_OPTIONS, OLD_NETWORK, UNSUPPORTED
from returnn.log import log
from returnn.util.errors import ConfigError, UserError
from returnn.util.files.text_file import read_text
from returnn.util.python.user_code_errors import is_code_of_user

_MIN_SIMILARITY = 0.87  # of `difflib`: one wrong letter in eight, one missing in four, two in thirteen
_MAYBE_SIMILAR = 0.8
_MIN_LENGTH = 4
_MAX_SHOWN = 3
_OLD_FORMS = ("num_inputs", "num_outputs", "sparse_input")  # of `extern_data`
_CODE = re.compile(r"\s*(\w+\[[\"']|from [\w.]+ import |import \w|def \w+\()")
_OF_OTHER_TASKS = frozenset(
    name
    for table in (CheckOptions, EvaluationOptions, ForwardOptions, SearchOptions, StatisticsOptions)
    for name in options_of_table(table)
)
_TUNING = "hyper_param_tuning"  # with this task, values can be a `HyperParam` instead


@dataclass(frozen=True)
class OptionReport:
    """What is wrong with the options of a config."""

    misspelt: dict[str, str]  # name -> known option
    wrong: list[str]  # errors about values
    unsupported: list[str]  # the run would be another one
    unread: list[str]  # without effect
    of_others: list[str]  # without effect, as they are about runs of another backend
    replaced: list[str]  # known options without effect, as a newer one says the same
    keys: list[str]  # of the command line, which are keys of dicts in the config, as options of layers are


def check_options(config: Config) -> None:
    """
    :param config: after everything was loaded; with `allow_unknown_options`, options may look like others
    :raises ConfigError: if an option looks like a known one, has a wrong value, or is set and not supported
    """
    report = inspect_options(config)
    if config.options.allow_unknown_options:
        report = replace(report, unread=sorted([*report.unread, *report.misspelt]))
    elif report.misspelt:
        raise ConfigError(_describe(config, report.misspelt))
    if report.unsupported:
        raise ConfigError(_describe_unsupported(report.unsupported, config.options.backend))
    if report.wrong:
        more = f"\n  {len(report.wrong) - 1} more options have wrong values." if len(report.wrong) > 1 else ""
        raise ConfigError(report.wrong[0] + more)
    for text in warnings_about(report, config.options.backend):
        log.print_warning(text)


def check_is_config(config: Config) -> None:
    """
    :param config: after its files were loaded
    :raises ConfigError: if these are lines of which none begins with an option, as those of a text
    """
    if not config.dict or any(source.type != "txt" for source in config.sources):
        _check_each_text(config)
        return
    if any(name in KNOWN_OPTIONS or _nearest_option(name) for name in config.option_names()):
        return
    raise ConfigError(
        f"config {config.files[0]!r}: none of its lines begins with an option, as 'num_epochs 5' does.\n"
        "  Is it a text? Data is for data sets, see --help datasets, or for options of tools, such as --text."
    )


def _check_each_text(config: Config) -> None:
    """:raises ConfigError: if a file beside others lacks the first line of Python, as its lines are code"""
    for source in config.sources:
        if source.type == "txt" and any(map(_CODE.match, source.content.splitlines())):
            raise ConfigError(
                f"config {source.filename!r}: its lines look like Python, but such a file begins with '#!rnn.py'."
            )


def inspect_options(config: Config) -> OptionReport:
    """:return: what is wrong with the options of the config"""
    used = config.options_read.union(*(_used_in(source) for source in config.sources))
    names = sorted(set(config.option_names()))
    parts = [name for name in names if "." in name and name in config.command_line_options]
    parts = [name for name in parts if name.partition(".")[0] in names]
    own = [
        name
        for name in names
        if not (name.startswith("_") or (name in KNOWN_OPTIONS and name not in OLD_NETWORK) or name in used)
        and not isinstance(config.typed_dict.get(name), (ModuleType, type))  # a class `Model` is no option
        and name not in parts
    ]
    misspelt = {name: known for name in own if (known := _nearest_option(name)) is not None}
    for name in config.command_line_options.intersection(own).difference(misspelt):
        nearest = _maybe_meant(name)  # nobody carries options of old versions there, and it would change nothing
        misspelt.update({} if nearest is None else {name: nearest})
    misspelt = {name: OTHER_NAMES.get(name.lower(), known) for name, known in misspelt.items()}
    return OptionReport(
        misspelt,
        wrong=[*map(_part_text, parts), *_wrong_values(config, names, used)],
        unsupported=[
            name
            for name in names
            if _is_unsupported(config, name) and not (name in OLD_NETWORK and name in _asked_for(config))
        ],
        unread=[
            name
            for name in own
            if name not in misspelt and not _is_function(config.typed_dict.get(name)) and _is_seen(config, name)
        ],
        of_others=[name for name in names if _is_of_another_backend(config, name)],
        replaced=_replaced(config, used),
        keys=_keys_of_dicts(config, used),
    )


def _is_seen(config: Config, name: str) -> bool:
    """:return: False for what was set by code that a config executes; who uses it there is not seen either"""
    contents = [source.content for source in config.sources]
    executes = any(re.search(r"\bexec\(|\brun_path\(", content) for content in contents)
    is_here = name in config.command_line_options or any(
        re.search(rf"\b{re.escape(name)}\b", content) for content in contents
    )
    return is_here or not executes


def _keys_of_dicts(config: Config, used: Set[str]) -> list[str]:
    """:return: names of the command line that the config has as keys of dicts alone, which these do not change"""
    given = {name for name in config.command_line_options if name in used and name not in KNOWN_OPTIONS}
    if not given:
        return []
    return sorted(given - _asked_for(config))


def _asked_for(config: Config) -> set[str]:
    """:return: names that the config uses elsewhere than as keys of dicts, as options of layers are"""
    return config.options_read.union(*(_used_in(source, with_keys=False) for source in config.sources))


def _part_text(name: str) -> str:
    """:return: error about an option of the command line such as "network.output.n_out" """
    option = name.partition(".")[0]
    return (
        f"command line: '++{name}': '++' sets whole options, not a part of {option!r}.\n"
        "  A config can ask for such a value: config.int('size', 10) in it is what '++size 20' says, or else 10."
    )


def _replaced(config: Config, used: Set[str]) -> list[str]:
    if config.opt_typed_value("extern_data") is None:
        return []
    return [name for name in _OLD_FORMS if name not in used and config.opt_typed_value(name) is not None]


def warnings_about(report: OptionReport, backend: str | None) -> list[str]:
    """
    :param report: of a config
    :param backend: option `backend`
    :return: lines about options that have no effect
    """
    lines = []
    if report.replaced:
        names, verb = " and ".join(map(repr, report.replaced)), "has" if len(report.replaced) == 1 else "have"
        lines.append(f"{names} {verb} no effect, as 'extern_data' says which data there is.")
    lines += [no_effect_text(name, backend) for name in report.of_others]
    for name in report.keys:
        lines.append(
            f"'++{name}' has no effect: '++' sets whole options of the config, and {name!r} is in dicts of it alone. A "
            f"config can ask for such a value: config.value({name!r}, None) in it is what the command line says."
        )
    return [*lines, *([unread_text(report.unread)] if report.unread else [])]


def unread_text(names: Sequence[str]) -> str:
    """:return: a line about names that nothing uses"""
    nearest = {name: _maybe_meant(name) for name in names}
    shown = [f"{name} (is it {nearest[name]!r}?)" if nearest[name] else name for name in names]
    return f"options that nobody reads, neither the toolkit nor the config itself: {', '.join(shown)}"


def unsupported_text(name: str, backend: str | None = None) -> str:
    """
    :param name: of an option which is not supported
    :param backend: option `backend`
    :return: a line that says what to do
    """
    if not fits_backend(name, backend):
        return wrong_backend_text(name, backend)
    return f"option {name!r} is not supported: {UNSUPPORTED.get(name) or OLD_NETWORK[name]}."


def _wrong_values(config: Config, names: list[str], used: set[str]) -> Iterator[str]:
    """
    :return: errors about values. A name that the config itself uses may be a helper value, of whatever kind: if it is
        read as an option nevertheless, the error comes then
    """
    if config.opt_typed_value("task") == _TUNING:
        return
    for name in names:
        value = config.typed_dict.get(name)
        if name not in OPTIONS or isinstance(value, ModuleType) or (name in used and name in config.typed_dict):
            continue
        try:
            OPTIONS[name].value_in(config)
        except ConfigError as exc:
            yield str(exc)


def helper_errors(config: Config) -> list[str]:
    """
    Functions that a config makes for itself, and calls as an option is called: a run refuses them where it reads that
    option. Other helper values have no such names by chance, and options of tasks beside the training may never be
    read.

    :return: errors, for a check before the run
    """
    names = config.options_read.union(*(_used_in(source) for source in config.sources)).intersection(OPTIONS)
    errors = []
    for name in sorted(names - _OF_OTHER_TASKS):
        if callable(config.typed_dict.get(name)) and fits_backend(name, config.options.backend):
            try:
                OPTIONS[name].value_in(config)
            except ConfigError as exc:
                errors.append(str(exc))
    return errors


def _is_unsupported(config: Config, name: str) -> bool:
    if name in OLD_NETWORK:
        return name in config.command_line_options and name != "load_config"
    is_needed = name not in ADDS_TO or _asks_for_something(config, ADDS_TO[name])
    has_reader = name not in UNSUPPORTED and fits_backend(name, config.options.backend)
    return not has_reader and name not in CHANGE_NO_RESULT and is_needed and _asks_for_something(config, name)


def _is_of_another_backend(config: Config, name: str) -> bool:
    is_other = name in CHANGE_NO_RESULT and not fits_backend(name, config.options.backend)
    return is_other and _asks_for_something(config, name)


def _asks_for_something(config: Config, name: str) -> bool:
    value = config.bool_or_other(name) if name in config.dict else config.typed_dict.get(name)
    if isinstance(value, str):
        return value.lower() not in ("", "0", "false", "none")
    is_empty = isinstance(value, (int, float, dict, list, tuple)) and not value
    return value is not None and value is not False and not is_empty


def _is_function(value: object) -> bool:
    return isinstance(value, FunctionType)


def _used_in(source: ConfigSource, *, with_keys: bool = True) -> set[str]:
    """:return: names that the config imports or reads, and all words in its strings, maybe without keys of dicts"""
    return _used_in_code(source.content, seen=set(), with_keys=with_keys) if source.type == "py" else set()


def _used_in_code(code: str, *, seen: set[str], with_keys: bool = True) -> set[str]:
    """
    :param code: of a config, or of a module of which it takes all names
    :param seen: such modules, which are not looked at again
    :param with_keys: whether keys of dicts that are written out count
    :return: names that it imports or reads, and all words in its strings
    """
    used: set[str] = set()
    nodes = list(ast.walk(ast.parse(code)))
    keys = set() if with_keys else {id(key) for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
    for node in nodes:
        if id(node) in keys:
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            used.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            used.update(re.findall(r"[A-Za-z_]\w*", node.value))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            used.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
            takes_all = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for name in names:
                if takes_all or _is_of_users(name):
                    used |= _used_in_module(name, seen=seen)
        elif isinstance(node, ast.Call) and re.fullmatch(r"exec|(.*\.)?run_path", ast.unparse(node.func)):
            for file in _files_named_in(node):
                used |= _used_in_executed(file, seen=seen, with_keys=with_keys)
    return used


def _files_named_in(call: ast.Call) -> Iterator[str]:
    for node in ast.walk(call):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and os.path.isfile(node.value):
            yield os.path.realpath(node.value)


def _used_in_executed(file: str, *, seen: set[str], with_keys: bool) -> set[str]:
    """:return: as `_used_in_code`, of a file that a config executes by `exec(open(...).read())` or the like"""
    if file in seen:
        return set()
    seen.add(file)
    try:
        return _used_in_code(read_text(file), seen=seen, with_keys=with_keys)
    except (UserError, ValueError, SyntaxError):  # it was executed, but in another way
        return set()


def _is_of_users(name: str) -> bool:
    """:return: whether it is a module beside the config, which may ask for options, too"""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and is_code_of_user(file)


def _used_in_module(name: str, *, seen: set[str]) -> set[str]:
    """:return: as `_used_in_code`; all of its names if it is not written in Python, such as `math`"""
    module = sys.modules.get(name)
    if module is None or name in seen:
        return set()
    seen.add(name)
    try:
        return _used_in_code(inspect.getsource(module), seen=seen)
    except (OSError, TypeError):
        return set(vars(module))


def _nearest_option(name: str) -> str | None:
    """:return: the option that a config means by this name, which is no option; None if it may be a name of its own"""
    if len(name) < _MIN_LENGTH or name in OLD_NETWORK:
        return None
    by_lower_case = _by_lower_case()
    if name.lower() in by_lower_case:
        return by_lower_case[name.lower()]
    for nearest in difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=_MIN_SIMILARITY):
        if re.sub(r"_?\d+", "", name.lower()) != nearest:  # `train2` is a helper value
            return by_lower_case[nearest]
    return next((known for lower, known in by_lower_case.items() if _are_swapped(name.lower(), lower)), None)


def _maybe_meant(name: str) -> str | None:
    """:return: the option that has this name elsewhere, or the nearest one, also where it is less near"""
    if name.lower() in OTHER_NAMES:
        return OTHER_NAMES[name.lower()]
    nearest = difflib.get_close_matches(name.lower(), _by_lower_case(), n=1, cutoff=_MAYBE_SIMILAR)
    return _nearest_option(name) or (_by_lower_case()[nearest[0]] if nearest else None)


def _by_lower_case() -> dict[str, str]:
    return {known.lower(): known for known in sorted(KNOWN_OPTIONS.difference(OLD_NETWORK))}


def _are_swapped(name: str, known: str) -> bool:
    """:return: whether two neighbouring letters have changed places, as in `taks`"""
    differing = [i for i, (a, b) in enumerate(zip(name, known, strict=False)) if a != b]
    if len(name) != len(known) or len(differing) != 2 or differing[1] != differing[0] + 1:
        return False
    i = differing[0]
    return name[i] == known[i + 1] and name[i + 1] == known[i]


def _describe_unsupported(names: list[str], backend: str | None) -> str:
    lines = [unsupported_text(name, backend) for name in names[:_MAX_SHOWN]]
    return "\n  ".join([*lines, "The run would not be what the config asks for; leave it out."])


def _describe(config: Config, misspelt: dict[str, str]) -> str:
    where = f"config {config.files[-1]!r}" if config.files else "config"
    shown = list(misspelt.items())[:_MAX_SHOWN]
    lines = [f"there is no option {name!r}. Did you mean {known!r}?" for name, known in shown]
    if len(misspelt) > len(shown):
        lines[-1] += f" And {len(misspelt) - len(shown)} more."
    return "\n  ".join([f"{where}: {lines[0]}", *lines[1:], "allow_unknown_options = True turns this check off."])
