"""Writes docs/supported.md and docs/unsupported.md from the op table and the tables of rules.

python tools/support_tables.py            # writes both pages
python tools/support_tables.py --check    # exits 1 where a page is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from aotarray import special
from aotarray.ops import OPS, UFUNC_OPS
from aotarray.trace import control
from aotarray.trace.functions import FUNCTIONS, METHODS, UFUNCS
from aotarray.trace.functions.creation import CREATION
from aotarray.trace.functions.unsupported import (
    PLAIN,
    REFUSED_CLASSES,
    REFUSED_FUNCTIONS,
    REFUSED_METHODS,
    REFUSED_PLAIN,
    REFUSED_PROPERTIES,
)
from aotarray.trace.tracer import Tracer

DOCS = Path(__file__).resolve().parent.parent / "docs"
NUMPY = ".".join(np.__version__.split(".")[:2])
MADE = f"Made by `python tools/support_tables.py` with NumPy {NUMPY}; what an older NumPy lacks is not there."
GROUPS = {
    "elementwise": "Selecting and converting", "numeric": "Rounding, parts, comparisons",
    "reductions": "Reductions", "statistics": "Statistics", "running": "Along an axis",
    "shaping": "Shapes and views", "joining": "Joining and repeating", "selecting": "Indexing and selecting",
    "padding": "Padding", "products": "Products", "einsum": "einsum", "norms": "Norms",
    "linear_algebra": "Linear algebra", "transforms": "Transforms", "ordering": "Order, searching and counting",
    "finding": "Elements found, distinct values, sets", "scatter": "Writing at positions",
}  # fmt: skip
#: what a rule takes less of than NumPy does, beside dtypes that no compiled function has
LIMITS = (
    ("`max`, `min`, `argmax`, `argmin`, `ptp`", "not of complex values: take them of `abs(x)` or `x.real`"),
    ("`pad`", "the modes `constant`, `edge`, `reflect`, `symmetric` and `wrap`"),
    ("`linalg.eig`, `linalg.eigvals`", "of complex values; the dtype of the result depends on values otherwise"),
    ("`linalg.lstsq`", "the residuals of matrices of full rank; raises where they are used and the rank is less"),
    ("`histogram`, `histogram2d`, `histogram_bin_edges`", "a number of bins, or edges; not the name of a rule"),
    ("`polyfit`", "a degree; not `full=` and `cov=`"),
    ("`ufunc.reduce`", "of add, multiply, maximum, minimum, logical_and, logical_or, logical_xor"),
    ("`ufunc.accumulate`", "of add and multiply"),
    ("`ufunc.reduceat`", "not supported: reshape and reduce"),
    ("`x[i] = v` with a traced integer `i`", "looks at the whole of `x`; `scan` stacks rows in place"),
    ("`unique`", "of all elements; not along an axis. `unique_values` sorts, where NumPy keeps an order of its own"),
    ("`trim_zeros`", "of arrays with one axis"),
    (
        "`average`, `nanargmax`, `nanargmin`, indexing",
        "raise NumPy's errors only for elements that are computed",
    ),
)


def public() -> Iterator[tuple[str, Any]]:
    """NumPy's functions and ufuncs, with their names."""
    for module, prefix in ((np, ""), (np.linalg, "linalg."), (np.fft, "fft.")):
        for name in sorted(dir(module)):
            found = getattr(module, name)
            if not name.startswith("_") and (
                isinstance(found, np.ufunc) or hasattr(found, "_implementation")
            ):
                yield prefix + name, found


def others() -> Iterator[tuple[str, Any]]:
    """NumPy's other public functions and classes, dtypes and scalar types left out."""
    modules = ((np, ""), (np.linalg, "linalg."), (np.fft, "fft."))
    known = dict(public())
    for module, prefix in modules:
        for name in sorted(module.__all__):
            found = getattr(module, name)
            scalar = isinstance(found, type) and issubclass(found, (np.generic, Exception))
            if prefix + name not in known and callable(found) and not scalar:
                yield prefix + name, found


def unlisted() -> list[str]:
    """What NumPy has and neither page names."""
    on_pages = {name for _, names in (*PLAIN, *REFUSED_PLAIN, *REFUSED_CLASSES) for name in names.split()}
    tables = (UFUNC_OPS, UFUNCS, FUNCTIONS)
    rules = {name for name, found in (*public(), *others()) if any(found in table for table in tables)}
    methods = {n for n in (*dir(Tracer), *METHODS) if not n.startswith("_")} | refused_methods()
    missing = [name for name, _ in (*public(), *others()) if name not in on_pages | rules | set(CREATION)]
    return missing + [f"ndarray.{n}" for n in dir(np.ndarray) if not n.startswith("_") and n not in methods]


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(names)))


def refused_functions() -> set[str]:
    return {name for _, names in REFUSED_FUNCTIONS for name in names.split()}


def refused_methods() -> set[str]:
    return {name for _, names in (*REFUSED_METHODS, *REFUSED_PROPERTIES) for name in names.split()}


def supported_page() -> str:
    refused = refused_functions()
    groups: dict[str, list[str]] = {title: [] for title in GROUPS.values()}
    ufuncs = []
    for name, found in public():
        if name in refused:
            continue
        if isinstance(found, np.ufunc):
            ufuncs += [name] if found in UFUNC_OPS or found in UFUNCS or found in FUNCTIONS else []
        elif found in FUNCTIONS and name not in CREATION:
            groups[GROUPS[FUNCTIONS[found].__module__.rpartition(".")[2]]].append(name)
    own = {n for n in dir(Tracer) if not n.startswith("_") and n in dir(np.ndarray)}
    methods = (own | {n for n in METHODS if not n.startswith("_")}) - refused_methods()
    lines = [
        "# What compiled functions may use", "", MADE, "",
        "Dtypes: bool, the integers of 8 to 64 bits, float16, float32, float64, complex64, complex128. Anything",
        "else of NumPy works on values that depend on no argument. [unsupported.md](unsupported.md) lists what is",
        "refused, and ways round.", "",
        "| | |", "|---|---|", f"| Ufuncs | {listed(ufuncs)} |", f"| Making arrays | {listed(CREATION)} |",
    ]  # fmt: skip
    lines += [f"| {title} | {listed(names)} |" for title, names in groups.items() if names]
    lines += [
        f"| Methods and attributes | {listed(methods)} |",
        "| Operators | `+ - * / // % ** @ & \\| ^ ~ << >> < <= > >= == !=`, `abs`, `divmod`, `round`, in place too |",
        "| Indexing | integers, slices, `None`, `...`, integer arrays, masks; reading and writing |",
        f"| Ufuncs of `scipy.special` | {listed(special.RULES)} |",
        f"| Control flow, of `aotarray` | {listed(control.__all__)} |",
        "| Diagnostics, of `aotarray` | `check`, `debug.print` ([diagnostics.md](diagnostics.md)) |",
        "", "## With limits", "| | |", "|---|---|",
    ]  # fmt: skip
    lines += [f"| {what} | {limit} |" for what, limit in LIMITS]
    lines += [
        "", "## While tracing", "These run in Python while the function is traced, on values that are known then, as",
        "in plain NumPy. A size that they need as an int is fixed.", "", "| | |", "|---|---|",
    ]  # fmt: skip
    available = {name for name, _ in others()}
    for title, names in PLAIN:
        shown = available.intersection(names.split())
        lines += [f"| {title[0].upper()}{title[1:]} | {listed(shown)} |"] if shown else []
    ops = ", ".join(f"`{name}`" for name in OPS)
    return (
        "\n".join([*lines, "", "## Ops of the graph", f"All of these are recorded as {len(OPS)} ops: {ops}."])
        + "\n"
    )


def unsupported_page() -> str:
    lines = [
        "# What compiled functions refuse, and what to do instead", "",
        MADE, "", "Each raises `UnsupportedError` at the line that uses it, with the text of its row.", "",
        "| function | instead |", "|---|---|",
    ]  # fmt: skip
    available = {name for name, _ in (*public(), *others())}
    refused = (*REFUSED_FUNCTIONS, *REFUSED_PLAIN)
    rows = {name: way for way, names in refused for name in names.split() if name in available}
    lines += [f"| `{name}` | {rows[name]} |" for name in sorted(rows)]
    lines += ["", "| attribute of an array | instead |", "|---|---|"]
    rows = {n: way for way, names in (*REFUSED_METHODS, *REFUSED_PROPERTIES) for n in names.split()}
    lines += [f"| `{name}` | {rows[name]} |" for name in sorted(rows) if hasattr(np.ndarray, name)]
    lines += ["", "Of these classes, what they do with a traced array raises `TraceError` or one of its kinds.", ""]
    lines += ["| class | instead |", "|---|---|"]
    lines += [f"| `{name}` | {way} |" for way, names in REFUSED_CLASSES for name in names.split()]
    if unlisted():
        lines += ["", f"Neither supported nor with a way round of its own: {listed(unlisted())}."]
    return "\n".join(lines) + "\n"


PAGES = {"supported.md": supported_page, "unsupported.md": unsupported_page}


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    options = parser.parse_args()
    stale = [name for name, page in PAGES.items() if not _is(DOCS / name, page())]
    for name in stale:
        if options.check:
            print(f"docs/{name} is out of date: run python tools/support_tables.py")
        else:
            (DOCS / name).write_text(PAGES[name]())
    return int(options.check and bool(stale))


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
