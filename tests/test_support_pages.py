"""docs/supported.md and docs/unsupported.md say what the tables of rules say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import aotarray
from aotarray.errors import UnsupportedError

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "unsupported.md").read_text()
NUMPY = ".".join(np.__version__.split(".")[:2])
ROWS = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", PAGE, re.MULTILINE)


@pytest.mark.skipif(f"with NumPy {NUMPY};" not in PAGE, reason="the pages are of another NumPy's names")
def test_the_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "support_tables.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_rows_are_raised_with_their_text():
    function = next((name, way) for name, way in ROWS if name == "unique")
    with pytest.raises(UnsupportedError, match=re.escape(function[1])):
        aotarray.lower(lambda x: np.unique(x), "f64[n]")
    attribute = next((name, way) for name, way in reversed(ROWS) if name == "strides")
    with pytest.raises(UnsupportedError, match=re.escape(attribute[1])):
        aotarray.lower(lambda x: x.strides, "f64[n]")


def test_other_errors_name_the_page(monkeypatch):
    from aotarray.trace.functions import FUNCTIONS

    monkeypatch.delitem(FUNCTIONS, np.sort)
    with pytest.raises(UnsupportedError, match=r"docs/supported\.md"):
        aotarray.lower(lambda x: np.sort(x), "f64[n]")
