"""The demo's second process: a script, run by path, that imports the built module and NumPy only.

Usage: demo_process.py FOLDER NAME COUNT; prints one JSON object.
"""

from __future__ import annotations

import importlib
import json
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOREIGN = ("aotarray", "llvmlite", "numba")


def best_ms(function: Callable[..., Any], *arguments: Any) -> float:
    """Milliseconds of the fastest of several calls, after one to warm up."""
    function(*arguments)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def main(folder: str, name: str, count: int) -> None:
    sys.path.insert(0, folder)
    compiled = importlib.import_module(name).price
    reference = runpy.run_path(str(Path(__file__).with_name("demo_functions.py")))["price"]
    random = np.random.default_rng(0)
    arguments = tuple(random.uniform(low, high, count) for low, high in ((50, 150), (50, 150), (0.1, 2)))
    expected, result = np.stack(reference(*arguments)), np.stack(compiled(*arguments))
    report = {
        "numpy_ms": best_ms(reference, *arguments),
        "compiled_ms": best_ms(compiled, *arguments),
        "difference": float(np.max(np.abs(result - expected))),
        "largest": float(expected.max()),
        "loaded": [name for name in FOREIGN if name in sys.modules],
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
