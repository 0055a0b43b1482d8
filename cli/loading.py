"""From `module:function` or `file.py:function` to the function, with errors that help."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

import click


class LoadError(click.ClickException):
    """The function that the user named cannot be had. Exit code 1."""


@dataclass(frozen=True, slots=True)
class Target:
    """One argument of the command line: a function, or the whole module when `attribute` is empty."""

    module: ModuleType
    attribute: str
    value: Any


def load(reference: str) -> Target:
    """The target that `reference` names.

    `package.module:function`, `folder/file.py:function`, `module:object.method`, or a module alone.
    The folder of the file (for a dotted name, the working directory) is importable while it loads.
    """
    place, colon, attribute = reference.partition(":")
    if colon and not attribute:
        raise LoadError(f"no function after the colon in '{reference}'; write {place}:NAME")
    if not place:
        raise LoadError(f"no module before the colon in '{reference}'; write MODULE:NAME or FILE.py:NAME")
    if place.endswith(".py") or "/" in place or "\\" in place:
        module = _load_file(Path(place))
    else:
        module = _load_module(place)
    return Target(module, attribute, _find(module, place, attribute) if attribute else None)


def functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The public functions that `module` itself defines, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if callable(value)
        and not name.startswith("_")
        and not isinstance(value, type)
        and getattr(value, "__module__", None) == module.__name__
    }


def short_name(module: ModuleType) -> str:
    """The module's last name: `price` for `models.price`, `options` for `options.py`."""
    return module.__name__.rpartition(".")[2].partition("@")[0]


# -- modules ------------------------------------------------------------------------------------------
def _load_file(path: Path) -> ModuleType:
    path = path if path.suffix == ".py" else path.with_name(path.name + ".py")
    if not path.is_file():
        beside = [file.name for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise LoadError(f"there is no file {path}{_suggest(path.name, beside)}")
    path = path.resolve()
    # The digest keeps two files of one name apart, and both from hiding an installed module.
    name = f"{path.stem.replace('.', '_')}@{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path} cannot be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _importable(path.parent):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise LoadError(_import_failure(str(path), error)) from error
    return module


def _load_module(name: str) -> ModuleType:
    try:
        with _importable(Path.cwd()):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise LoadError(_no_module(name, missing)) from None
        raise LoadError(_import_failure(name, error)) from error
    except (Exception, SystemExit) as error:
        raise LoadError(_import_failure(name, error)) from error


def _no_module(name: str, missing: str) -> str:
    message = f"there is no module named '{missing}'"
    as_file = Path(*name.split(".")).with_suffix(".py")
    nearby = next((p for p in (as_file, *sorted(Path.cwd().glob(f"*/{as_file}"))) if p.is_file()), None)
    if nearby is not None:
        relative = nearby.relative_to(Path.cwd()) if nearby.is_absolute() else nearby
        return f"{message}; did you mean the file {relative}?"
    beside = [file.stem for file in Path.cwd().glob("*.py")]
    return f"{message} on Python's path or in {Path.cwd()}{_suggest(missing, beside)}"


def _import_failure(where: str, error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    lines = [f"{where} cannot be imported"]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append(f"{error.filename}, line {error.lineno}: {(error.text or '').strip()}")
        text = f"{type(error).__name__}: {error.msg}"
    else:
        frames = [
            frame for frame in extract_tb(error.__traceback__) if not _is_import_machinery(frame.filename)
        ]
        lines += [f"{frame.filename}, line {frame.lineno}: {frame.line}" for frame in frames[-1:]]
    lines.append(text)
    if "attempted relative import" in text:
        lines.append("The file belongs to a package: give its dotted name, such as package.module:function")
    return "\n  ".join(lines)


def _is_import_machinery(filename: str) -> bool:
    return filename.startswith("<") or filename in (__file__, importlib.__file__)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)


# -- attributes ---------------------------------------------------------------------------------------
def _find(module: ModuleType, place: str, attribute: str) -> Callable[..., Any]:
    value: Any = module
    seen = place
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise LoadError(f"{seen} has no function '{name}'{_candidates(value, name)}")
        value = getattr(value, name)
        seen = f"{seen}.{name}" if seen != place else f"{place}:{name}"
    if not callable(value):
        raise LoadError(f"{place}:{attribute} is {_article(type(value).__name__)}, not a function")
    return value  # type: ignore[no-any-return]


def _candidates(value: object, name: str) -> str:
    if isinstance(value, ModuleType):
        names = sorted(functions(value))
    else:
        names = [n for n in dir(value) if not n.startswith("_") and callable(getattr(value, n, None))]
    return _suggest(name, names) + (f"\n  It has: {', '.join(names)}" if names else "")


def _suggest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
