"""Checks results against NumPy, then times calls: rounds over all peers, so that a drift hits everyone."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SAMPLE = 2e-3  # seconds that one sample should last at least
PAUSE = 5e-3  # seconds between peers: threads of the last one stop spinning
MOST_SAMPLES = 20  # of one peer in one round


@dataclass
class Times:
    """Seconds for one call."""

    samples: list[float] = field(default_factory=list)

    @property
    def minimum(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


def measure(calls: dict[str, Callable[[], Any]], rounds: int, seconds: float) -> dict[str, Times]:
    """Time `calls` in `rounds` rounds, each call for about `seconds` in all, at least one sample a round."""
    times = {name: Times() for name in calls}
    inner = {name: _calls_per_sample(call) for name, call in calls.items()}
    enabled = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            order = list(calls) if turn % 2 == 0 else list(reversed(calls))
            for name in order:
                time.sleep(PAUSE)
                _sample(calls[name], 1)  # brings the peer's data back into the caches
                end = time.perf_counter() + seconds / rounds
                for _ in range(MOST_SAMPLES):
                    times[name].samples.append(_sample(calls[name], inner[name]))
                    if time.perf_counter() >= end:
                        break
            gc.collect()
    finally:
        if enabled:
            gc.enable()
    return times


def _sample(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def _calls_per_sample(call: Callable[[], Any]) -> int:
    """How many calls fill a sample."""
    count = 1
    while count < 100_000:
        if _sample(call, count) * count >= SAMPLE / 2:
            break
        count *= 2
    return count


def difference(got: list[np.ndarray], want: list[np.ndarray], tolerance: float | None, strict: bool) -> str:
    """What is wrong with `got`, or "". `strict` asks for NumPy's dtypes too.

    Numbers may differ by the tolerance times the value plus the tolerance times the largest value, as
    sums are taken in different orders; integers and bools must be equal.
    """
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    for g, w in zip(got, want, strict=True):
        if g.shape != w.shape:
            return f"shape {g.shape}, not {w.shape}"
        if strict and g.dtype != w.dtype:
            return f"dtype {g.dtype}, not {w.dtype}"
        if w.dtype.kind in "biu":
            wrong = int(np.count_nonzero(g != w))
            if wrong:
                return f"{wrong} of {w.size} values differ"
            continue
        allowed = tolerance or (2e-5 if w.dtype in (np.float32, np.complex64) else 1e-11)
        scale = np.max(np.abs(w), initial=0.0, where=np.isfinite(w))
        with np.errstate(invalid="ignore"):
            bad = ~(np.abs(g - w) <= allowed * (np.abs(w) + scale)) & (g != w) & ~(np.isnan(g) & np.isnan(w))
        if bad.any():
            worst = np.max(np.abs(g - w), initial=0.0, where=bad & np.isfinite(g) & np.isfinite(w))
            return f"{int(bad.sum())} of {w.size} values differ, by {worst:.2g} (largest value {scale:.2g})"
    return ""
