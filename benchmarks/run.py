"""Times aotarray and its peers on the same work in one run: `python benchmarks/run.py --help`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import report

HERE = Path(__file__).resolve().parent

#: These slow NumPy's own matmul down where a machine sets them: every run is without.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")

#: What tells a library how many threads to use; XLA reads NPROC.
THREAD_VARIABLES = (
    "AOTARRAY_NUM_THREADS", "MKL_NUM_THREADS", "NPROC", "NUMBA_NUM_THREADS", "NUMEXPR_MAX_THREADS",
    "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
)  # fmt: skip


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/run.py",
        description="Time aotarray and its peers on the same work; results are checked first.",
    )
    add = parser.add_argument
    add("--only", default="", metavar="PARTS", help="workloads whose names hold one of PARTS (a,b,c)")
    add("--peers", default="numpy,numexpr,numba,jax,torch",
        help="which to time beside aotarray (default: %(default)s; pythran too, or all)")  # fmt: skip
    add("--threads", default=str(len(_cores())), help="thread counts, such as 1,2 (default: every core)")
    add("--size", default="default", help="small, default, large, or numbers of elements: 1e2,1e4,1e6")
    add("--repeat", type=int, default=5, help="rounds over the peers of a row (default: %(default)s)")
    add("--seconds", type=float, default=0.4, help="timed, of each peer and row (default: %(default)s)")
    add("--by", choices=("minimum", "median"), default="minimum", help="which time the report compares")
    add("--json", type=Path, metavar="FILE", help="write everything measured")
    add("--picture", metavar="FILE", help="draw the ratios, and the time by size where several ran")
    add("--list", action="store_true", help="print the workloads and end")
    options = parser.parse_args(argv)
    if options.peers == "all":
        options.peers = "numpy,numexpr,numba,jax,torch,pythran"
    return options


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    if options.list:
        from workloads import WORKLOADS

        print("\n".join(f"{w.name:34} {w.bound}" for w in WORKLOADS))
        return 0
    run: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "peers": [*dict.fromkeys(["numpy", *options.peers.split(",")]), "aotarray"],
        "threads": [int(t) for t in options.threads.split(",")],
        "probes": {},
        "rows": [],
    }
    for threads in run["threads"]:
        measure(run, threads, options)
    if not run["rows"]:
        print(f"no workload matches {options.only!r}: see --list", file=sys.stderr)
        return 2
    by_threads = {t: [r for r in run["rows"] if r["threads"] == t] for t in run["threads"]}
    run["means"] = {t: report.means(rows, options.by) for t, rows in by_threads.items()}
    print(report.text(run, options.by))
    if options.json:
        options.json.write_text(json.dumps(run, indent=1) + "\n")
    if options.picture:
        report.picture(run, options.by, options.picture)
    return 0


def measure(run: dict[str, Any], threads: int, options: argparse.Namespace) -> None:
    """Run every row with a thread count; a worker that dies loses the row it was at, and another goes on."""
    done: list[str] = []
    while True:
        config = {
            "only": options.only, "peers": options.peers.split(","), "sizes": options.size.split(","),
            "threads": threads, "cores": len(_cores()), "repeat": options.repeat, "seconds": options.seconds,
            "done": done,
        }  # fmt: skip
        code, row, peer = follow(run, done, start(config, threads), threads)
        if code == 0:
            return
        if row is None or row in done:
            raise SystemExit(f"the benchmark's worker failed ({code}) before its first row")
        done.append(row)
        name, count = row.split()
        why = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        run["rows"].append({
            "workload": name, "elements": int(count), "threads": threads, "limit": {"kind": "none"},
            "peers": {peer or "aotarray": {"status": "crashed", "message": why}},
        })  # fmt: skip


def start(config: dict[str, Any], threads: int) -> subprocess.Popen[str]:
    """A worker, tied to as many cores as it may have threads."""
    environment = {k: v for k, v in os.environ.items() if k not in UNSET}
    environment |= dict.fromkeys(THREAD_VARIABLES, str(threads))
    environment |= {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, str(HERE / "worker.py"), json.dumps(config)]
    cores = _cores()[:threads]
    tie = (lambda: os.sched_setaffinity(0, cores)) if hasattr(os, "sched_setaffinity") else None
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=tie)


def follow(
    run: dict[str, Any], done: list[str], worker: subprocess.Popen[str], threads: int
) -> tuple[int, str | None, str | None]:
    """Read a worker's lines to the end: its exit status, and the row and peer it was at."""
    assert worker.stdout is not None
    row = peer = None
    total = 0
    for line in worker.stdout:
        message = json.loads(line)
        match message.pop("kind"):
            case "rows":
                total = len(message["rows"])
            case "machine":
                run["probes"][str(threads)] = message.pop("probes")
                run |= message
            case "start":
                row, peer = message["row"], None
                show(f"[{threads} thread{'s' * (threads > 1)}] {len(done) + 1}/{total} {row}")
            case "peer":
                peer = message["peer"]
            case "row":
                done.append(message["row"])
                run["rows"].append(message["result"])
    show("")
    return worker.wait(), row, peer


def show(text: str) -> None:
    """One line of progress, where someone watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


if __name__ == "__main__":
    sys.exit(main())
