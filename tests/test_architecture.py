"""The floors of the house: imports go down, and the lower floors need no TensorFlow and no PyTorch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
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
    "returnn.tf.native_op",
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
        "loop.frame",
        "loop.graph",
        "loop.infer",
        "loop.inputs",
        "loop.plan",
        "loop.selected_frames",
        "loop.time_step",
        "search.beam",
    )
)
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "returnn.util": (),
    "returnn.log": UTIL,
    "returnn.config": (*UTIL, "returnn.log"),
    "returnn.tensor": UTIL,
    "returnn.frontend": (*TENSOR, "returnn.config.current"),
    "returnn.datasets": (*UTIL, "returnn.log", "returnn.config"),
    "returnn.datasets.postprocessing": ("returnn.datasets", *FRONTEND),  # its functions get tensors with named dims
    "returnn.native": UTIL,
    "returnn.tf.frontend_low_level": (*FRONTEND, "returnn.native"),
    "returnn.torch.frontend": (*FRONTEND, "returnn.native"),
    "returnn.tf.util": LOW_LEVEL,
    "returnn.tf.native_op": LOW_LEVEL,
    "returnn.sprint": ("returnn.util", "returnn.datasets"),
    "returnn.tf.sprint": ("returnn.util", "returnn.sprint"),
    "returnn.tf.checkpoint": (*UTIL, "returnn.log", "returnn.tf.util.assign"),
    "returnn.tf.layers": LAYERS,
    **dict.fromkeys(
        LOOP_WITHOUT_GRAPH,
        (
            *FRONTEND,
            *LOOP_WITHOUT_GRAPH,
            "returnn.tf.layers.core.step_state",
            "returnn.tf.layers.core.network_protocol",
        ),
    ),
    "returnn.tf.network": NETWORK,
}
WITHOUT_FRAMEWORK = (
    "returnn.util",
    "returnn.tensor",
    "returnn.frontend",
    "returnn.datasets",
    "returnn.config",
    *LOOP_WITHOUT_GRAPH,
)
WITHOUT_CIRCLES_OF_TYPES = (
    "returnn.util", "returnn.tensor", "returnn.frontend", "returnn.compat.tensor", "returnn.tf.network",
    "returnn.tf.engine", "returnn.tf.layers.search", "returnn.tf.layers.loop", "returnn.tf.layers.rec",
)  # fmt: skip
RECURRENT_ROOMS = tuple(f"returnn.tf.layers.{room}" for room in ("search", "loop", "rec"))  # each knows those before it
FRAMEWORKS = {"tensorflow", "torch", "keras"}
COMPAT = "returnn.compat"
INSTALLS_COMPAT = "returnn"  # `import returnn` makes old module names known


def _modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(_modules())


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
    statements = [node for node in ast.parse(MODULES[module].read_text("utf8")).body if not isinstance(node, ast.Expr)]
    names = [ast.unparse(node.targets[0]) for node in statements if isinstance(node, ast.Assign)]
    imports = [node for node in statements if isinstance(node, ast.ImportFrom)]
    return len(imports) + len(names) == len(statements) and names in ([], ["__all__"])


def _facades() -> set[str]:
    """:return: documented paths which hand on names from the room of the past"""
    candidates = {module for module in MODULES if not _is_in(module, COMPAT) and _only_hands_names_on(module)}
    facades: set[str] = set()
    while True:
        more = {
            module
            for module in candidates - facades
            if any(_is_in(imported, COMPAT) or imported in facades for imported in IMPORTS[module])
        }
        if not more:
            return facades
        facades |= more


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def _package_of(module: str) -> str | None:
    return max((package for package in MAY_IMPORT if _is_in(module, package)), key=len, default=None)


def _imports_of_all(*, with_types: bool = False) -> dict[str, list[str]]:
    trees = {module: ast.parse(path.read_text("utf8")) for module, path in MODULES.items()}
    return {module: sorted(set(_imports(tree, with_types=with_types))) for module, tree in trees.items()}


IMPORTS = _imports_of_all()
FACADES = _facades()


def test_the_past_is_imported_by_its_facades_alone() -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, imports in IMPORTS.items()
        if not _is_in(module, COMPAT) and module not in FACADES and module != INSTALLS_COMPAT
        for imported in imports
        if _is_in(imported, COMPAT) or imported in FACADES
    ]
    assert not wrong


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_go_down(package: str) -> None:
    allowed = ("returnn.util", package, *MAY_IMPORT[package])
    wrong = [
        f"{module} imports {imported}"
        for module, imports in IMPORTS.items()
        if _package_of(module) == package and module not in FACADES
        for imported in imports
        if _is_in(imported, "returnn") and not any(_is_in(imported, other) for other in allowed)
    ]
    assert not wrong


@pytest.mark.parametrize("package", WITHOUT_FRAMEWORK)
def test_lower_floors_import_no_framework(package: str) -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, imports in IMPORTS.items()
        if _is_in(module, package)
        for imported in imports
        if imported.split(".")[0] in FRAMEWORKS
    ]
    assert not wrong


def test_torch_is_imported_in_its_own_package_alone() -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, imports in IMPORTS.items()
        if not _is_in(module, "returnn.torch") and not _is_in(module, "returnn.native")
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
    _assert_no_circle(IMPORTS, package)


@pytest.mark.parametrize("package", WITHOUT_CIRCLES_OF_TYPES)
def test_modules_know_each_other_in_no_circle(package: str) -> None:
    """Nor for type checking: who reads a module can begin with those that it mentions."""
    imports = _imports_of_all(with_types=True)
    inside = {module: [name for name in names if _is_in(name, package)] for module, names in imports.items()}
    _assert_no_circle(inside, package)


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
