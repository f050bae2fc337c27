"""The floors of the house: imports go down, and the lower floors need no TensorFlow and no PyTorch."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "returnn"

# What a package may import of ours, beside itself. For each module, the longest name counts.
UTIL = ("returnn.util",)
TENSOR = (*UTIL, "returnn.tensor")
FRONTEND = (*TENSOR, "returnn.frontend")
LOW_LEVEL = (*FRONTEND, "returnn.tf.frontend_low_level", "returnn.tf.util", "returnn.native")
LAYERS = (
    *LOW_LEVEL,
    "returnn.tf.sprint",
    "returnn.tf.layers",
    "returnn.config",
    "returnn.log",
    "returnn.datasets",
)
NETWORK = (*LAYERS, "returnn.tf.network", "returnn.tf.checkpoint")
LOOP_WITHOUT_GRAPH = tuple(
    f"returnn.tf.layers.{name}"
    for name in (
        "loop.blocks",
        "loop.dims_of_frames",
        "loop.frame",
        "loop.graph",
        "loop.infer",
        "loop.inputs",
        "loop.plan",
        "loop.selected_frames",
        "loop.time_step",
        "search.beam",
        "search.dims_of_hypotheses",
    )
)
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "returnn.util": (),
    "returnn.log": UTIL,
    "returnn.config": (*UTIL, "returnn.log"),
    "returnn.config.option_types": TENSOR,  # options can be dims
    "returnn.tensor": UTIL,
    "returnn.frontend": (*TENSOR, "returnn.config.current"),
    "returnn.datasets": (*UTIL, "returnn.log", "returnn.config"),
    "returnn.datasets.postprocessing": ("returnn.datasets", *FRONTEND),  # its functions get tensors with named dims
    "returnn.datasets.util.data_description": ("returnn.datasets", "returnn.config", *TENSOR),  # as templates
    "returnn.native": UTIL,
    "returnn.tf.frontend_low_level": (*FRONTEND, "returnn.native"),
    "returnn.torch.frontend": (*FRONTEND, "returnn.native"),
    "returnn.tf.util": LOW_LEVEL,
    "returnn.sprint": ("returnn.util", "returnn.datasets"),
    "returnn.sprint.interface": ("returnn.util", "returnn.datasets", "returnn.config", "returnn.log"),
    "returnn.tf.sprint": ("returnn.util", "returnn.sprint"),
    "returnn.tf.checkpoint": (
        *UTIL,
        "returnn.log",
        "returnn.config.preloaded_file",
        "returnn.tf.util.parameters.assign",
        "returnn.tf.util.op_error",
    ),
    "returnn.tf.layers": LAYERS,
    **dict.fromkeys(
        LOOP_WITHOUT_GRAPH,
        (
            *FRONTEND,
            *LOOP_WITHOUT_GRAPH,
            "returnn.tf.layers.core.step_state",
            "returnn.tf.layers.core.network_protocol",
            "returnn.tf.layers.options.registry",  # which class a name in a net dict means
        ),
    ),
    "returnn.tf.network": NETWORK,
    "returnn.tf.frontend_layers": (
        *FRONTEND,
        "returnn.config",
        "returnn.log",
        "returnn.tf.layers",
        "returnn.tf.network",
    ),
    "returnn.tf.frontend_layers.config_entry_points": (  # records the functions of a config
        *FRONTEND,
        "returnn.tf.frontend_layers",
        "returnn.config",
        "returnn.engine.frontend",
    ),
}
WITHOUT_FRAMEWORK = (
    "returnn.util",
    "returnn.tensor",
    "returnn.frontend",
    "returnn.datasets",
    "returnn.config",
    "returnn.native",
    *LOOP_WITHOUT_GRAPH,
)
WITHOUT_CIRCLES_OF_TYPES = (
    "returnn.util", "returnn.tensor", "returnn.frontend", "returnn.compat.tensor", "returnn.tf.network",
    "returnn.tf.engine", "returnn.tf.layers.search", "returnn.tf.layers.loop", "returnn.tf.layers.rec",
)  # fmt: skip
RECURRENT_ROOMS = tuple(f"returnn.tf.layers.{room}" for room in ("search", "loop", "rec"))  # each knows those before it
FRAMEWORKS = {"tensorflow", "torch", "keras"}
USERS = ("returnn", "tests", "tools", "demos", "benchmarks")
MAX_MODULES_OF_FOLDER = 25
FLAT_FOLDERS = {"returnn/frontend"}  # each of its modules is a documented path
MAX_LINES_OF_FILE = 600
MAX_LINES_OF_BODY = 60  # of a function: without the signature and the docstring, which are as long as the interface
COMPAT = "returnn.compat"
WRITES_FROM_OUTSIDE = {  # to what a tensor is, after it was made, by others than its own methods: to become fewer
    "feature_dim": 12, "sparse_dim": 17, "time_dim_axis": 2, "feature_dim_axis": 1, "batch": 6, "raw_tensor": 95,
    "_raw_tensor": 82, "_feature_dim_axis": 1, "_time_dim_axis": 1,
}  # fmt: skip
MAX_METHODS_OF_CLASS = 60  # with all that it inherits, beside those of a documented interface
METHODS_OF_INTERFACES = {  # to become fewer
    "returnn.tensor.dim.Dim": 78,
    "returnn.tensor.tensor.Tensor": 132,
    "returnn.frontend._backend.Backend": 218,
    "returnn.datasets.core.dataset.Dataset": 74,
    "returnn.tf.layers.core.layer_base.LayerBase": 109,
    "returnn.tf.network.network.TFNetwork": 112,
    "returnn.tf.engine.engine.Engine": 73,
}
INSTALLS_COMPAT = "returnn"  # `import returnn` makes old module names known


def _modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(_modules())


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf8"))


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _imports(node: ast.AST, *, with_types: bool = False) -> Iterator[str]:
    """
    :return: modules that are imported when the program runs, also inside of functions; `with_types`: also those which
        are only imported for type checking
    """
    for child in ast.iter_child_nodes(node):
        if _is_type_checking(child) and not with_types:
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, "imports are absolute"
            assert child.module
            for alias in child.names:
                name = f"{child.module}.{alias.name}"
                yield name if name in MODULES else child.module
        else:
            yield from _imports(child, with_types=with_types)


def _only_hands_names_on(module: str) -> bool:
    """:return: whether it consists of imports, a docstring and `__all__`"""
    statements = [node for node in _tree(MODULES[module]).body if not isinstance(node, ast.Expr)]
    names = [ast.unparse(node.targets[0]) for node in statements if isinstance(node, ast.Assign)]
    imports = [node for node in statements if isinstance(node, ast.ImportFrom)]
    return len(imports) + len(names) == len(statements) and names in ([], ["__all__"])


@functools.cache
def _facades() -> set[str]:
    """:return: documented paths which hand on names from the room of the past"""
    candidates = {module for module in MODULES if not _is_in(module, COMPAT) and _only_hands_names_on(module)}
    imports_of = _imports_of_all()
    facades: set[str] = set()
    while True:
        more = {
            module
            for module in candidates - facades
            if any(_is_in(imported, COMPAT) or imported in facades for imported in imports_of[module])
        }
        if not more:
            return facades
        facades |= more


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def _package_of(module: str) -> str | None:
    return max((package for package in MAY_IMPORT if _is_in(module, package)), key=len, default=None)


@functools.cache
def _imports_of_all(*, with_types: bool = False) -> dict[str, list[str]]:
    trees = {module: _tree(path) for module, path in MODULES.items()}
    return {module: sorted(set(_imports(tree, with_types=with_types))) for module, tree in trees.items()}


def test_the_past_is_imported_by_its_facades_alone() -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, imports in _imports_of_all().items()
        if not _is_in(module, COMPAT) and module not in _facades() and module != INSTALLS_COMPAT
        for imported in imports
        if _is_in(imported, COMPAT) or imported in _facades()
    ]
    assert not wrong


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_go_down(package: str) -> None:
    allowed = ("returnn.util", package, *MAY_IMPORT[package])
    wrong = [
        f"{module} imports {imported}"
        for module, imports in _imports_of_all().items()
        if _package_of(module) == package and module not in _facades()
        for imported in imports
        if _is_in(imported, "returnn") and not any(_is_in(imported, other) for other in allowed)
    ]
    assert not wrong


@pytest.mark.parametrize("package", WITHOUT_FRAMEWORK)
def test_lower_floors_import_no_framework(package: str) -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, imports in _imports_of_all().items()
        if _is_in(module, package)
        for imported in imports
        if imported.split(".")[0] in FRAMEWORKS
    ]
    assert not wrong


def test_torch_is_imported_in_its_own_package_alone() -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, imports in _imports_of_all().items()
        if not _is_in(module, "returnn.torch")
        for imported in imports
        if _is_in(imported, "torch")
    ]
    assert not wrong


def _assert_no_circle(imports: dict[str, list[str]], package: str) -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"circle of imports: {' -> '.join((*path[path.index(module) :], module))}"
        if module in done:
            return
        for imported in imports[module]:
            if imported in MODULES:
                visit(imported, (*path, module))
        done.add(module)

    for module in MODULES:
        if _is_in(module, package):
            visit(module, ())


@pytest.mark.parametrize("package", ["returnn.util", "returnn.tensor", "returnn.frontend"])
def test_modules_import_each_other_in_no_circle(package: str) -> None:
    _assert_no_circle(_imports_of_all(), package)


@pytest.mark.parametrize("package", WITHOUT_CIRCLES_OF_TYPES)
def test_modules_know_each_other_in_no_circle(package: str) -> None:
    """Nor for type checking: who reads a module can begin with those that it mentions."""
    imports = _imports_of_all(with_types=True)
    inside = {module: [name for name in names if _is_in(name, package)] for module, names in imports.items()}
    _assert_no_circle(inside, package)


def _knots(imports: dict[str, list[str]]) -> list[set[str]]:
    """:return: the largest sets of modules each of which is reached from each other one"""
    order: list[str] = []
    users: dict[str, list[str]] = {module: [] for module in imports}
    done: set[str] = set()

    def visit(module: str) -> None:
        done.add(module)
        for imported in imports[module]:
            if imported not in done:
                visit(imported)
        order.append(module)

    for module, imported_modules in imports.items():
        for imported in imported_modules:
            users[imported].append(module)
        if module not in done:
            visit(module)
    knots = []
    while order:
        knot, todo = set(), [order[-1]]
        while todo:
            module = todo.pop()
            if module in done:
                done.remove(module)
                knot.add(module)
                todo += users[module]
        order = [module for module in order if module in done]
        knots.append(knot)
    return [knot for knot in knots if len(knot) > 1]


def test_no_knots() -> None:
    """Modules which mention each other in a circle: none, imports for type checking and those in functions included."""
    imports = {
        module: [name for name in names if name in MODULES]
        for module, names in _imports_of_all(with_types=True).items()
    }
    assert not _knots(imports)


def test_each_room_of_recurrence_knows_only_those_before() -> None:
    imports = _imports_of_all(with_types=True)
    for number, room in enumerate(RECURRENT_ROOMS):
        known = {imported for module in imports if _is_in(module, room) for imported in imports[module]}
        assert not {name for name in known for later in RECURRENT_ROOMS[number + 1 :] if _is_in(name, later)}


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("returnn.tensor", ["tensorflow", "torch", "returnn.frontend"]),
        ("returnn.frontend", ["tensorflow", "torch"]),
        ("returnn.datasets.core.registry", ["tensorflow", "torch"]),
        ("returnn.tf.layers.loop.infer", ["tensorflow", "torch"]),
        ("returnn.tf.layers.loop.plan", ["tensorflow", "torch"]),
        ("returnn.tf.frontend_low_level", ["torch"]),
        ("returnn.torch.frontend", ["tensorflow"]),
    ],
)
def test_import_loads_no_framework(module: str, unwanted: list[str]) -> None:
    """A user of one framework need not install, nor wait for, the other."""
    code = f"import sys, {module}; print([m for m in {unwanted!r} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def _trees(folder: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield path.relative_to(ROOT), _tree(path)


@functools.cache
def _names_of(module: str) -> set[str] | None:
    """:return: what can be imported from a module of ours; None if it takes names of others by a star"""
    tree = _tree(MODULES[module])
    names = {name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == module}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return None if "*" in names or "__getattr__" in names else names


def _missing(module: str, names: Iterable[str]) -> list[str]:
    """:return: names that cannot be imported from the module"""
    if module not in MODULES:
        return [module]
    known = _names_of(module)
    return [] if known is None else [f"{module}.{name}" for name in names if name not in {*known, "*"}]


@pytest.mark.parametrize("folder", USERS)
def test_what_is_imported_is_there(folder: str) -> None:
    """A module that moves takes its users along, also those which few tests import."""
    wrong = []
    for path, tree in _trees(folder):
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names if _is_in(alias.name, "returnn")]
                wrong += [f"{path}: {module}" for module in modules if module not in MODULES]
            elif isinstance(node, ast.ImportFrom) and node.module and _is_in(node.module, "returnn"):
                wrong += [f"{path}: {name}" for name in _missing(node.module, [alias.name for alias in node.names])]
    assert not wrong


def test_modules_that_are_named_are_there() -> None:
    """What is imported late is named in a string: "package.module:name"."""
    wrong = []
    for path, tree in _trees("returnn"):
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and re.fullmatch(r"returnn(\.\w+)+:\w+", text):
                module, _, name = text.partition(":")
                wrong += [f"{path}: {missing}" for missing in _missing(module, [name])]
    assert not wrong


def test_folders_are_rooms() -> None:
    """One sees at once what is in a folder."""
    modules = {
        module: path for module, path in MODULES.items() if path.name != "__init__.py" and module not in _facades()
    }
    numbers = Counter(path.parent for path in modules.values())
    by_name = {folder.relative_to(ROOT).as_posix(): number for folder, number in numbers.items()}
    assert not {name for name, number in by_name.items() if number > MAX_MODULES_OF_FOLDER} - FLAT_FOLDERS


def test_files_have_one_theme() -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text("utf8").splitlines()) for path in MODULES.values()}
    assert not {path: size for path, size in sizes.items() if size > MAX_LINES_OF_FILE}


def _lines_of_body(function: ast.FunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_functions_do_one_thing() -> None:
    long = [
        f"{path}: {node.name}: {_lines_of_body(node)} lines"
        for path, tree in _trees("returnn")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and _lines_of_body(node) > MAX_LINES_OF_BODY
    ]
    assert not long


def _written_attributes(node: ast.AST) -> Iterator[ast.Attribute]:
    """:return: targets `x.name` of assignments, where x is not `self`"""
    for child in ast.walk(node):
        if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store) and ast.unparse(child.value) != "self":
            yield child


def test_tensors_of_others_are_written_no_more_often() -> None:
    """Who changes a tensor that others hold, changes it for them too. What is made fewer is noted here."""
    own = ("returnn.tensor", "returnn.compat")
    numbers = Counter(
        target.attr
        for module, path in MODULES.items()
        if not any(_is_in(module, package) for package in own)
        for target in _written_attributes(_tree(path))
    )
    assert {name: numbers[name] for name in WRITES_FROM_OUTSIDE} == WRITES_FROM_OUTSIDE


CLASSES = {
    f"{module}.{node.name}": node
    for module, path in MODULES.items()
    for node in _tree(path).body
    if isinstance(node, ast.ClassDef)
}


@functools.cache
def _names_from_elsewhere(module: str) -> dict[str, str]:
    """:return: name in the module -> what it is, with the module that it is from"""
    names = {}
    for node in ast.walk(_tree(MODULES[module])):
        if isinstance(node, ast.ImportFrom):
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Import):
            names.update({alias.asname or alias.name: alias.name for alias in node.names})
    return names


def _full_name(module: str, name: str) -> str:
    """:return: the class of this name, with the module which has it"""
    first, _, rest = name.partition(".")
    imported = _names_from_elsewhere(module).get(first)
    if f"{module}.{name}" in CLASSES or imported is None:
        return f"{module}.{name}"
    full = f"{imported}.{rest}" if rest else imported
    package, _, last = full.rpartition(".")
    return full if full in CLASSES or package not in MODULES else _full_name(package, last)


@functools.cache
def _line_of(full_name: str) -> tuple[str, ...]:
    """:return: the class, and all that it inherits from which is ours"""
    module, line = full_name.rpartition(".")[0], [full_name]
    for base in CLASSES[full_name].bases:
        node = base.value if isinstance(base, ast.Subscript) else base
        name = _full_name(module, ast.unparse(node))
        if name in CLASSES:
            line += _line_of(name)
    return tuple(line)


def _methods_of(classes: Iterable[str]) -> set[str]:
    """:return: names of methods and properties"""
    return {node.name for name in classes for node in CLASSES[name].body if isinstance(node, ast.FunctionDef)}


def test_classes_are_small() -> None:
    """The towers below an interface count with it."""
    floors = {name for interface in METHODS_OF_INTERFACES for name in _line_of(interface)}
    large = {}
    for name in CLASSES:
        if name in floors or _is_in(name, COMPAT):
            continue
        own = [base for base in _line_of(name) if base not in floors]
        number = len(_methods_of(own) - _methods_of(set(_line_of(name)) & floors))
        if number > MAX_METHODS_OF_CLASS:
            large[name] = number
    assert not large
    assert {name: len(_methods_of(_line_of(name))) for name in METHODS_OF_INTERFACES} == METHODS_OF_INTERFACES
