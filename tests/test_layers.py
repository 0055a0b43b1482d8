"""The layers of docs/architecture.md: a module imports only layers above its own, and only the compile and
vecmath layers import numba or llvmlite, inside functions."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

#: From the top down. An entry is a module of aotarray, or a package with everything in it.
LAYERS = [
    {"errors"},
    {"types", "sizes", "spec", "routines", "philox"},
    {"ops"},
    {"graph", "verify", "show"},
    {"interpret"},
    {"trace", "numpy", "random", "debug", "special", "signature"},
    {"passes"},
    {"fusion", "loops", "program"},
    {"emit"},
    {"vecmath"},
    {"compile"},
    {"runtime"},
    {"aot"},
    {"api", "building", "compiler", "recompilation"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
COMPILERS = {"numba", "llvmlite"}


@dataclass(frozen=True)
class Import:
    """One imported module, by its absolute name, and where: `lazy` when inside a function."""

    target: str
    line: int
    lazy: bool


def sources():
    """Every module of the package: dotted name and path, with cli/ as aotarray.cli."""
    for folder, prefix in ((ROOT / "aotarray", "aotarray"), (ROOT / "cli", "aotarray.cli")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join((prefix, *parts)).removesuffix(".__init__"), path


MODULES = dict(sources())


def imports_of(name, path):
    """All imports in a module, those for type checkers only left out."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]

    def walk(node, lazy):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, lazy)
        elif isinstance(node, ast.ImportFrom):
            parent = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join((*parent, node.module) if node.module else parent)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(full if full in MODULES or base == "aotarray" else base, node.lineno, lazy)
        lazy = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            yield from walk(child, lazy)

    yield from walk(ast.parse(path.read_text()), False)


def layer(name):
    """The entry of LAYERS that a module of aotarray belongs to; "" for the facade."""
    return name.split(".")[1] if "." in name else ""


def test_every_module_is_in_a_layer():
    assert sorted({layer(name) for name in MODULES} - {""} - set(LEVEL)) == []


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_upwards(name):
    problems = []
    for found in imports_of(name, MODULES[name]):
        if found.target.partition(".")[0] != "aotarray" or layer(found.target) not in LEVEL:
            continue
        if layer(name) == "" or LEVEL[layer(found.target)] > LEVEL[layer(name)]:
            problems.append(f"line {found.line}: {name} imports {found.target}, a layer below")
    assert problems == []


@pytest.mark.parametrize("name", MODULES)
def test_only_compile_and_vecmath_import_the_compiler_and_lazily(name):
    problems = []
    for found in imports_of(name, MODULES[name]):
        if found.target.partition(".")[0] not in COMPILERS:
            continue
        if layer(name) not in ("compile", "vecmath"):
            problems.append(f"line {found.line}: {name} imports {found.target}")
        elif not found.lazy:
            problems.append(f"line {found.line}: {name} imports {found.target} outside a function")
    assert problems == []


@pytest.mark.parametrize("name", [name for name in MODULES if layer(name) == "cli"])
def test_the_command_line_imports_only_the_facade(name):
    allowed = ("aotarray.api", "aotarray.errors", "aotarray.cli")
    targets = {found.target for found in imports_of(name, MODULES[name])}
    ours = {target for target in targets if target.startswith("aotarray.") and layer(target) in LEVEL}
    assert sorted(target for target in ours if not target.startswith(allowed)) == []


@pytest.mark.parametrize("name", [name for name in MODULES if layer(name) != "cli"])
def test_only_the_command_line_imports_click(name):
    assert not any(found.target.partition(".")[0] == "click" for found in imports_of(name, MODULES[name]))


def test_the_page_lists_the_layers_in_this_order():
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("| layer |")[2].partition("\n## ")[0]
    order = [table.find(f"`{name}") for name in ("errors", "ops/", "graph", "interpret", "trace/", "passes/",
             "fusion/", "emit/", "vecmath/", "compile/", "runtime/", "aot/", "api", "cli/")]  # fmt: skip
    assert -1 not in order
    assert order == sorted(order)


def test_the_reader_of_imports(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import aotarray.api\n"
        "from . import errors, api\n"
        "from .ops import table\n"
        "from .ops.table import Op\n"
        "def f():\n    import numba.core\n"
    )
    assert [(found.target, found.line, found.lazy) for found in imports_of("aotarray.module", path)] == [
        ("typing", 1, False),
        ("aotarray.errors", 4, False),
        ("aotarray.api", 4, False),
        ("aotarray.ops.table", 5, False),
        ("aotarray.ops.table", 6, False),
        ("numba.core", 8, True),
    ]
