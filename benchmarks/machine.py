"""What the machine is, and what it can do at most: memory bandwidth and multiply-add throughput, probed here.

Bytes are counted as in STREAM (J. D. McCalpin, 1995): those the loop reads and writes, without the reads
that a store causes in the cache. A probe runs on the workload's own footprint, so that work which fits the
caches is compared with the caches.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from numba import njit

ATTEMPTS = 12
PROBE_SECONDS = 4e-3  # of one attempt, at least


def describe(cores: int) -> dict[str, Any]:
    """CPU model, cores, caches, memory, system."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"^model name\s*:\s*(.*)$", info, re.M)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model.group(1) if model else platform.processor() or platform.machine(),
        "cores": cores,
        "caches": _caches(),
        "vectors": "AVX-512" if " avx512f " in info else "AVX2" if " avx2 " in info else "128 bits",
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
    }


def _caches() -> dict[str, str]:
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((folder / f).read_text().strip() for f in ("level", "type", "size"))
        if kind != "Instruction":
            found[f"L{level}"] = size
    return found


@njit(nogil=True, fastmath=True)
def _read(a, b, out, lo, hi, repeats):
    part, kept = a[lo:hi], 0.0
    for r in range(repeats):
        total = 0.0
        for i in range(part.size):
            total += part[i]
        kept += total * r
    out[lo] = kept


@njit(nogil=True)
def _scale(a, b, out, lo, hi, repeats):
    x, z = a[lo:hi], out[lo:hi]
    for r in range(repeats):
        for i in range(x.size):
            z[i] = x[i] * r


@njit(nogil=True, fastmath=True)
def _triad(a, b, out, lo, hi, repeats):
    x, y, z = a[lo:hi], b[lo:hi], out[lo:hi]
    for r in range(repeats):
        for i in range(x.size):
            z[i] = x[i] + r * y[i]


def _copy(a: Any, b: Any, out: Any, lo: int, hi: int, repeats: int) -> None:
    """The C library's memcpy, which writes past the caches where that is faster."""
    target, source, size = out.ctypes.data + 8 * lo, a.ctypes.data + 8 * lo, 8 * (hi - lo)
    for _ in range(repeats):
        ctypes.memmove(target, source, size)


#: kind -> arrays that it reads and writes, the loops that may be fastest
STREAMS: dict[str, tuple[int, tuple[Callable[..., None], ...]]] = {
    "read": (1, (_read,)),
    "copy": (2, (_scale, _copy)),
    "triad": (3, (_triad,)),
}


class Machine:
    """Probes with a number of threads; each result is kept."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads)
        self.bandwidths: dict[tuple[str, int], float] = {}
        self.peaks: dict[str, float] = {}

    def limit(self, read: int, written: int) -> tuple[str, float]:
        """The stream that is most like reading and writing so many bytes, and its bytes per second."""
        kind = "read" if written < 0.05 * read else "copy" if written > 0.75 * read else "triad"
        return kind, self.bandwidth(kind, read + written)

    def bandwidth(self, kind: str, footprint: int) -> float:
        """Bytes per second of a stream whose arrays are `footprint` bytes together."""
        arrays, loops = STREAMS[kind]
        n = max(64 * self.threads, footprint // (8 * arrays))
        key = (kind, n)
        if key not in self.bandwidths:
            a, out = np.ones(n), np.ones(n)  # a read loop stores one value into each part of out
            b = np.ones(n) if kind == "triad" else a
            seconds = min(self._best(loop, a, b, out, n) for loop in loops)
            self.bandwidths[key] = 8 * arrays * n / seconds
        return self.bandwidths[key]

    def _best(self, loop: Callable[..., None], a: Any, b: Any, out: Any, n: int) -> float:
        edges = [n * k // self.threads for k in range(self.threads + 1)]
        parts = list(itertools.pairwise(edges))

        def once(repeats: int) -> float:
            start = time.perf_counter()
            list(self.pool.map(lambda part: loop(a, b, out, *part, repeats), parts))
            return (time.perf_counter() - start) / repeats

        once(1)
        repeats = max(1, round(PROBE_SECONDS / max(once(1), 1e-7)))
        repeats = max(repeats, round(PROBE_SECONDS / once(repeats)))
        return min(once(repeats) for _ in range(ATTEMPTS))

    def peak(self, dtype: str) -> float:
        """Floating-point operations per second of multiply-adds in registers, counted as two."""
        if dtype not in self.peaks:
            bits = 32 if dtype == "float32" else 64
            features = llvm.get_host_cpu_features()
            width = (512 if features.get("avx512f") else 256 if features.get("avx2") else 128) // bits
            run = _multiply_adds("float" if bits == 32 else "double", width)
            count = 500_000
            best = float("inf")
            for _ in range(ATTEMPTS):
                start = time.perf_counter()
                list(self.pool.map(lambda _: run(count, 0.5), range(self.threads)))
                best = min(best, time.perf_counter() - start)
            self.peaks[dtype] = 2.0 * CHAINS * width * count * self.threads / best
        return self.peaks[dtype]

    def summary(self) -> dict[str, float]:
        """GB/s from memory and GFLOP/s, for the report's head."""
        large = 2**28
        streams = {f"{kind}_gb_s": self.bandwidth(kind, large) / 1e9 for kind in STREAMS}
        peaks = {f"fma_{d}_gflop_s": self.peak(d) / 1e9 for d in ("float64", "float32")}
        return {k: round(v, 1) for k, v in (streams | peaks).items()}


CHAINS = 12  # independent multiply-adds: enough for two units of four cycles, few enough for 16 registers
_ENGINES: list[Any] = []  # keeps the code alive


def _multiply_adds(kind: str, width: int) -> Callable[[int, float], float]:
    """A function of (count, seed) that does `count` rounds of CHAINS vector multiply-adds."""
    vector = f"<{width} x {kind}>"
    fma = f"@llvm.fma.v{width}f{32 if kind == 'float' else 64}"
    half, one = (f"{vector} splat ({kind} {value})" for value in (0.5, 1.0))
    starts = "".join(
        f"  %s{c} = insertelement {vector} zeroinitializer, {kind} %seed, i32 {c % width}\n"
        f"  %i{c} = fadd {vector} %s{c}, splat ({kind} {float(c)})\n"
        for c in range(CHAINS)
    )
    phis = "".join(f"  %v{c} = phi {vector} [ %i{c}, %entry ], [ %w{c}, %loop ]\n" for c in range(CHAINS))
    steps = "".join(f"  %w{c} = call {vector} {fma}({vector} %v{c}, {half}, {one})\n" for c in range(CHAINS))
    sums = "".join(
        f"  %t{c} = fadd {vector} {f'%t{c - 1}' if c else 'zeroinitializer'}, %w{c}\n" for c in range(CHAINS)
    )
    text = f"""
declare {vector} {fma}({vector}, {vector}, {vector})
define {kind} @run(i64 %count, {kind} %seed) {{
entry:
{starts}  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %m, %loop ]
{phis}{steps}  %m = add i64 %n, 1
  %more = icmp slt i64 %m, %count
  br i1 %more, label %loop, label %done
done:
{sums}  %r = extractelement {vector} %t{CHAINS - 1}, i32 0
  ret {kind} %r
}}
"""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), target)
    engine.finalize_object()
    _ENGINES.append(engine)
    number = ctypes.c_float if kind == "float" else ctypes.c_double
    return ctypes.CFUNCTYPE(number, ctypes.c_int64, number)(engine.get_function_address("run"))
