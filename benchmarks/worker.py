"""Runs workloads with one thread count and prints one JSON line for each; started by `run.py`.

A process of its own has the thread counts and NumPy's BLAS settings in its environment before anything is
imported, and takes only its own row down when a peer crashes.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from typing import Any

import numpy as np
from machine import Machine, describe
from peers import Call, NotWritten, Peer, load, to_numpy
from peers import describe as versions
from timing import difference, measure
from workloads import CALL, MEMORY, Workload, select


def main(config: dict[str, Any]) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    sized = ((w, size, w.elements(size)) for w in select(config["only"]) for size in config["sizes"])
    rows = [(w, size, count) for w, size, count in sized if count]
    say(kind="rows", rows=[f"{w.name} {count}" for w, _, count in rows])
    done = set(config["done"])
    if all(f"{w.name} {count}" in done for w, _, count in rows):
        return
    peers, absent = load(config["peers"], config["threads"])
    machine = Machine(config["threads"])
    if not done:
        about = {"machine": describe(config["cores"]), "versions": versions(), "absent": absent}
        say(kind="machine", probes=machine.summary(), **about)
    for workload, size, count in rows:
        row = f"{workload.name} {count}"
        if row in done:
            continue
        done.add(row)  # a workload whose sizes are capped comes once
        say(kind="start", row=row)
        result = run(workload, count, peers, machine, config)
        say(kind="row", row=row, result={"size": size, **result})


def say(**message: Any) -> None:
    print(json.dumps(message), file=OUT, flush=True)


def run(
    workload: Workload, count: int, peers: list[Peer], machine: Machine, config: dict[str, Any]
) -> dict[str, Any]:
    """One workload at one size: every peer checked, then timed."""
    args = workload.make(count)
    want = to_numpy(workload.function(*args))
    results: dict[str, dict[str, Any]] = {}
    calls: dict[str, Call] = {}
    for peer in peers:
        try:
            say(kind="peer", peer=peer.name)
            start = time.perf_counter()
            call = peer.prepare(workload, args)
            got = to_numpy(call())
            first = time.perf_counter() - start
        except NotWritten as error:
            results[peer.name] = {"status": "none", "message": str(error)}
            continue
        except Exception as error:  # whatever a peer cannot do is one cell of the table
            results[peer.name] = {"status": "not supported", "message": _brief(error)}
            continue
        wrong = difference(got, want, workload.tolerance, strict=peer.name == "aotarray")
        if wrong:
            results[peer.name] = {"status": "wrong", "message": wrong}
            continue
        calls[peer.name] = call
        results[peer.name] = {"status": "ok", "first_call": first}
        del got
    sizes = [a.nbytes for a in args if isinstance(a, np.ndarray)], [w.nbytes for w in want]
    del want
    for name, times in measure(calls, config["repeat"], config["seconds"]).items():
        results[name] |= {"minimum": times.minimum, "median": times.median, "samples": len(times.samples)}
    return {
        "workload": workload.name,
        "elements": count,
        "shapes": [f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in args],
        "threads": config["threads"],
        "peers": results,
        "limit": limit(workload, args, sum(sizes[0]), sum(sizes[1]), machine),
    }


def limit(
    workload: Workload, args: tuple[Any, ...], read: int, written: int, machine: Machine
) -> dict[str, Any]:
    """The least seconds that this machine needs for the bytes or the arithmetic of a workload."""
    if workload.flops is not None:
        peak = machine.peak(args[0].dtype.name)
        return {"kind": "fma", "seconds": workload.flops(*args) / peak, "gflop_s": peak / 1e9}
    if workload.bound == CALL:
        return {"kind": CALL}
    kind, bandwidth = machine.limit(read, written)
    return {
        "kind": kind if workload.bound == MEMORY else workload.bound,
        "seconds": (read + written) / bandwidth,
        "bytes": read + written,
        "gb_s": bandwidth / 1e9,
    }


def _brief(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


if __name__ == "__main__":
    # Whatever a library prints must not get between the lines: results go to the first standard output.
    OUT = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(json.loads(sys.argv[1]))
