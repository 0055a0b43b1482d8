"""Times whole NumPy programs: as they are, as an expert's Numba loops, and compiled by aotarray.

    python benchmarks/programs.py --threads 2

Answers are compared with NumPy's before anything is timed. NumPy's time is that of one call.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

#: what tells a library how many threads to use
THREAD_VARIABLES = ("AOTARRAY_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
#: these slow NumPy's own matmul down where a machine sets them
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
PEERS = (("numpy", "NumPy"), ("numba", "Numba"))
NAMES = ("numpy", "numba", "aotarray")


def arguments(argv: list[str] | None) -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="python benchmarks/programs.py", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="PARTS", help="programs whose names hold one of PARTS (a,b,c)"
    )
    parser.add_argument(
        "--threads", type=int, default=cores, help="threads for each library (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="timed, of each peer and program (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    return parser.parse_args(argv)


def measure(case: Any, seconds: float) -> dict[str, Any]:
    """The least seconds of a call for each peer, and how long the first one took; or what is wrong."""
    import numpy as np
    import program_numba
    import timing

    given = case.arguments(case.size)
    calls = {
        "numba": getattr(program_numba, case.function.__name__),
        "aotarray": case.compiled(),
    }
    start = time.perf_counter()
    with np.errstate(all="ignore"):
        want = _arrays(case.function(*given))
    row: dict[str, Any] = {"program": case.name, "size": case.size, "numpy": time.perf_counter() - start}
    good = {}
    for name, call in calls.items():
        start = time.perf_counter()
        got = _arrays(call(*given))
        row[f"{name}_first"] = time.perf_counter() - start
        wrong = timing.difference(got, want, max(case.tolerance, 1e-9), strict=name == "aotarray")
        if wrong:
            row[f"{name}_wrong"] = wrong
        else:
            good[name] = lambda call=call: call(*given)
    for name, times in timing.measure(good, 3, seconds).items():
        row[name] = times.minimum
    return row


def _arrays(result: Any) -> list[Any]:
    import numpy as np

    return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]


def line(row: dict[str, Any]) -> str:
    cells = [f"{row['program']:22} {'x'.join(map(str, row['size'])):>16}"]
    cells += [f"{row[n] * 1e3:10.2f}" if n in row else f"{'wrong':>10}" for n in NAMES]
    ours = row.get("aotarray")
    cells += [f"{row[n] / ours:9.2f}" if ours and n in row else f"{'-':>9}" for n in NAMES[:2]]
    notes = [f"{n}: {row[f'{n}_wrong']}" for n in NAMES if f"{n}_wrong" in row]
    behind = "BEHIND" if ours and row.get("numba", ours) < 0.95 * ours else ""
    return " ".join([*cells, behind, *notes]).rstrip()


def means(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Geometric means of the peers' times over ours."""
    found = {}
    for name in NAMES[:2]:
        logs = [math.log(r[name] / r["aotarray"]) for r in rows if name in r and "aotarray" in r]
        if logs:
            found[name] = math.exp(sum(logs) / len(logs))
    return found


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    for name in UNSET:
        os.environ.pop(name, None)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(options.threads)))
    from program_cases import CASES

    parts = options.only.split(",")
    rows = []
    print(
        f"{'program':22} {'size':>16} {'NumPy ms':>10} {'Numba ms':>10} {'ours ms':>10} {'x NumPy':>9} {'x Numba':>9}"
    )
    for case in CASES:
        if any(part in case.name for part in parts):
            rows.append(measure(case, options.seconds))
            print(line(rows[-1]), flush=True)
    if not rows:
        print(f"no program matches {options.only!r}", file=sys.stderr)
        return 2
    summary = means(rows)
    said = " and ".join(f"{summary[name]:.2f} times {text}'s" for name, text in PEERS if name in summary)
    print(f"geometric means: {said} speed")
    if options.json:
        run = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "threads": options.threads, "means": summary, "rows": rows,
        }  # fmt: skip
        options.json.write_text(json.dumps(run, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
