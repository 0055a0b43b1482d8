"""The facade: what importing it loads, and what its names are."""

import importlib
import subprocess
import sys

import pytest

import aotarray


def loaded_by(code):
    """The modules outside the standard library that `code` loads in a new process."""
    program = (
        f"import sys; before = set(sys.modules)\n{code}\n"
        "print(*sorted(name for name in set(sys.modules) - before\n"
        "    if name.partition('.')[0] not in sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_the_facade_alone():
    assert loaded_by("import aotarray") == {"aotarray"}


@pytest.mark.parametrize("name", [name for name in aotarray.__all__ if name != "__version__"])
def test_names_load_neither_the_compiler_nor_the_command_line(name):
    tops = {module.partition(".")[0] for module in loaded_by(f"import aotarray; aotarray.{name}")}
    assert tops <= {"aotarray", "numpy"}


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'aotarray' has no attribute 'nothing'"):
        aotarray.nothing  # noqa: B018


def test_dir_lists_the_names():
    assert set(dir(aotarray)) == set(aotarray.__all__)


def test_trace_stays_the_function_when_its_package_loads():
    importlib.import_module("aotarray.trace")
    assert callable(aotarray.trace)
    assert "trace" in sys.modules["aotarray.trace"].__name__
