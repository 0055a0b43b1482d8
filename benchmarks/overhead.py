"""What aotarray costs beside the arithmetic: a call on 8 elements, imports, a first call from a warm cache.

    python benchmarks/overhead.py [--json FILE]

Each row is measured in this run: calls by the least of several rounds, which other work on the machine
disturbs least; processes by the median. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import aotarray

PROGRAM = """
import sys, time
import numpy as np
import aotarray.api

def compute(x, y):
    return np.sin(x) + np.cos(y)

compute = aotarray.jit(compute)
x, y = np.ones(8), np.ones(8)
before = set(sys.modules)
start = time.perf_counter()
compute(x, y)
seconds = time.perf_counter() - start
new = sorted({name.partition(".")[0] for name in set(sys.modules) - before})
compilers = sorted({"numba", "llvmlite"} & set(sys.modules))
print(seconds, compute.stats().cache_hits, ",".join(new), ",".join(compilers), sep="|")
"""


def compute(x: Any, y: Any) -> Any:
    return np.sin(x) + np.cos(y)


def add(x: Any, y: Any) -> Any:
    return x + y


def call_seconds(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least over rounds of each call's mean time, the calls in turn, each about 20 ms a round."""
    number = {name: max(1, timeit.Timer(call).autorange()[0] // 10) for name, call in calls.items()}
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            least[name] = min(least[name], timeit.timeit(call, number=number[name]) / number[name])
    return least


def built(function: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    name = f"overhead_{function.__name__}"
    path = aotarray.build(function, "f64[n], f64[n]", name=name, out=folder).path
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function.__name__)  # type: ignore[no-any-return]


def callables(function: Callable[..., Any], folder: Path) -> dict[str, Callable[[], Any]]:
    """The same call by every peer that is installed."""
    x, y = np.linspace(0, 1, 8), np.linspace(1, 2, 8)
    out = np.empty(8)
    compiled, module = aotarray.jit(function), built(function, folder)
    calls: dict[str, Callable[[], Any]] = {
        "NumPy": lambda: function(x, y),
        "aotarray.jit": lambda: compiled(x, y),
        "aotarray.jit, out=": lambda: compiled(x, y, out=out),
        "aotarray.jit, keywords": lambda: compiled(x=x, y=y),
        "aotarray built module": lambda: module(x, y),
        "aotarray built module, out=": lambda: module(x, y, out=out),
    }
    if importlib.util.find_spec("numba"):
        import numba

        dispatcher = numba.njit(function)
        calls["Numba dispatcher"] = lambda: dispatcher(x, y)
    if importlib.util.find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        same = {"compute": lambda a, b: jax.numpy.sin(a) + jax.numpy.cos(b), "add": add}
        jitted = jax.jit(same[function.__name__])
        on_device = jax.device_put(x), jax.device_put(y)
        calls["JAX, ndarrays"] = lambda: jitted(x, y).block_until_ready()
        calls["JAX, its own arrays"] = lambda: jitted(*on_device).block_until_ready()
    expected = function(x, y)
    for name, call in calls.items():
        assert np.allclose(call(), expected, rtol=1e-6), name
    return calls


def environment(folder: Path) -> dict[str, str]:
    """For new processes: compiled Python files are kept, as where packages are installed, and so are programs."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"PYTHONPYCACHEPREFIX": str(folder / "pyc"), "AOTARRAY_CACHE_DIR": str(folder / "cache")}
    return {**kept, **own}


def process_seconds(code: str, folder: Path) -> float:
    """Seconds that statements take in a fresh process, by its own clock."""
    timed = f"import time; start = time.perf_counter()\n{code}\nprint(time.perf_counter() - start)"
    return float(subprocess.check_output([sys.executable, "-c", timed], text=True, env=environment(folder)))


def import_seconds(rounds: int, folder: Path) -> dict[str, float]:
    """Medians for `import numpy`, and for aotarray's without and with what `jit` needs, measured in turn."""
    statements = {
        "import numpy": "import numpy",
        "import aotarray": "import aotarray",
        "import numpy, aotarray; aotarray.jit": "import numpy, aotarray; aotarray.jit",
    }
    samples: dict[str, list[float]] = {name: [] for name in statements}
    for name in statements:  # once for the files
        process_seconds(statements[name], folder)
    for _ in range(rounds):
        for name, code in statements.items():
            samples[name].append(process_seconds(code, folder))
    return {name: statistics.median(values) for name, values in samples.items()}


def first_call(folder: Path, rounds: int) -> dict[str, Any]:
    """A first call in new processes: compiled in the first, from the cache in the others."""
    script = folder / "first_call.py"
    script.write_text(PROGRAM)
    runs = []
    for _ in range(1 + rounds):
        output = subprocess.check_output([sys.executable, script], text=True, env=environment(folder))
        seconds, hits, modules, compilers = output.strip().split("|")
        runs.append((float(seconds), int(hits), modules.split(",") if modules else [], compilers))
    warm = runs[1:]
    assert all(hits == 1 for _, hits, _, _ in warm), "the cache was not warm"
    return {
        "cold": runs[0][0],
        "warm": statistics.median(seconds for seconds, *_ in warm),
        "modules": warm[-1][2],
        "compilers": [name for name in warm[-1][3].split(",") if name],
    }


def table(title: str, rows: dict[str, float], unit: str, scale: float, against: str) -> None:
    print(f"\n{title}")
    width = max(map(len, rows))
    for name, seconds in rows.items():
        ratio = seconds / rows[against]
        print(f"  {name:{width}}  {seconds * scale:9.3f} {unit}  {ratio:8.2f} x {against}")


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured, in seconds")
    parser.add_argument("--rounds", type=int, default=15, help="of each measurement (default: %(default)s)")
    options = parser.parse_args()
    measured: dict[str, Any] = {"numpy": np.__version__, "python": sys.version.split()[0], "calls": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for function, title in ((add, "x + y"), (compute, "sin(x) + cos(y)")):
            rows = call_seconds(callables(function, folder), options.rounds)
            measured["calls"][title] = rows
            table(f"A call of {title} on two float64 arrays of 8 elements", rows, "us", 1e6, "NumPy")
        measured["imports"] = import_seconds(options.rounds, folder)
        table("Imports, in new processes", measured["imports"], "ms", 1e3, "import numpy")
        first = measured["first_call"] = first_call(folder, options.rounds)
        print("\nFirst call of sin(x) + cos(y) in a new process, after imports")
        print(f"  compiling          {first['cold'] * 1e3:9.3f} ms")
        print(f"  from a warm cache  {first['warm'] * 1e3:9.3f} ms")
        print(f"  a warm call imported: {', '.join(first['modules']) or 'nothing'}")
        print(f"  compilers loaded after a warm call: {', '.join(first['compilers']) or 'none'}")
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
