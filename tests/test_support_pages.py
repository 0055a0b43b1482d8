"""docs/supported.md and docs/unsupported.md say what the tables of rules say."""

from __future__ import annotations

import functools
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import aotarray
from aotarray.errors import TraceError, UnsupportedError

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "unsupported.md").read_text()
NUMPY = ".".join(np.__version__.split(".")[:2])
SPEC = importlib.util.spec_from_file_location("support_tables", ROOT / "tools" / "support_tables.py")
tables = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tables)


@pytest.mark.skipif(f"with NumPy {NUMPY};" not in PAGE, reason="the pages are of another NumPy's names")
def test_the_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "support_tables.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def of_numpy(name):
    return functools.reduce(getattr, name.split("."), np)


FUNCTIONS, ATTRIBUTES, CLASSES = (
    dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", part, re.MULTILINE))
    for part in re.split(r"^\| (?:function|attribute of an array|class) \| instead \|$", PAGE, flags=re.MULTILINE)[1:]
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_refused_functions_raise_the_text_of_their_row(name):
    if not hasattr(np, name.partition(".")[0]):
        pytest.skip("this NumPy has no such function")
    raised = []
    for count in range(1, 5):  # as many arguments as it takes
        try:
            aotarray.lower(lambda x, n=count: of_numpy(name)(*[x] * n), "f64[n]")
        except UnsupportedError as error:
            raised.append(str(error))
        except (TypeError, OSError, ValueError, AttributeError):
            continue
        else:
            raised.append("nothing")
    assert raised
    expected = rf"test_support_pages.py:\d+: numpy.{re.escape(name)} .*: {re.escape(FUNCTIONS[name])}"
    for text in raised:
        assert re.fullmatch(expected, text)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_refused_attributes_raise_the_text_of_their_row(name):
    def use(x):
        found = getattr(x, name)
        return found(np.float32) if callable(found) else found

    with pytest.raises(UnsupportedError) as raised:
        aotarray.lower(use, "f64[n]")
    way = re.escape(ATTRIBUTES[name])
    assert re.fullmatch(rf"test_support_pages.py:\d+: ndarray.{name} .*: {way}", str(raised.value))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", CLASSES)
def test_refused_classes_raise_with_the_line(name):
    def use(x):
        if name == "vectorize":
            return np.vectorize(abs)(x)
        return list(getattr(np, name)(x))

    with pytest.raises(TraceError, match=r"^test_support_pages.py:\d+: "):
        aotarray.lower(use, "f64[n]")


def test_ufuncs_of_python_functions_are_refused():
    with pytest.raises(UnsupportedError, match=r"^test_support_pages.py:\d+: the ufunc .* of docs/supported.md$"):
        aotarray.lower(lambda x: np.frompyfunc(abs, 1, 1)(x), "f64[n]")


def test_numpy_has_nothing_that_neither_page_names():
    assert tables.unlisted() == []


def test_a_function_that_numpy_adds_is_found(monkeypatch):
    monkeypatch.setattr(np, "__all__", [*np.__all__, "brand_new"])
    monkeypatch.setattr(np, "brand_new", lambda x: x, raising=False)
    assert "brand_new" in tables.unlisted()


def test_refused_functions_work_on_plain_values_while_tracing():
    def use(x):
        known = np.asarray_chkfinite(np.require([1.0, 2.0]))
        pairs = [float(a) + b for a, b in np.nditer([known, known])]
        low = np.tril_indices(2)[0].size + np.hamming(3).size + np.finfo(x.dtype).bits
        return x[:2] + known * np.broadcast(known, known).size + sum(pairs) + low + len(np.base_repr(5, 2))

    x = np.arange(3.0)
    np.testing.assert_array_equal(aotarray.jit(use)(x), use(x))
    assert not hasattr(np.nditer, "__wrapped__")


def test_other_errors_name_the_page(monkeypatch):
    from aotarray.trace.functions import FUNCTIONS

    monkeypatch.delitem(FUNCTIONS, np.sort)
    with pytest.raises(UnsupportedError, match=r"docs/supported\.md"):
        aotarray.lower(lambda x: np.sort(x), "f64[n]")
