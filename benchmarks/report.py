"""The table, the means, the notes and the picture of a run, from the plain data that its JSON file holds."""

from __future__ import annotations

import math
from typing import Any

BEHIND = 0.95  # a ratio below this is marked: slower than the best peer by more than 5%


def seconds(row: dict[str, Any], peer: str, by: str) -> float | None:
    """The time of a peer, None where it has none."""
    value: float | None = row["peers"].get(peer, {}).get(by)
    return value


def best_peer(row: dict[str, Any], by: str) -> tuple[str, float] | None:
    """The fastest of the others."""
    times = [(t, p) for p in row["peers"] if p != "aotarray" and (t := seconds(row, p, by)) is not None]
    return (min(times)[1], min(times)[0]) if times else None


def ratios(rows: list[dict[str, Any]], peer: str, by: str) -> list[float]:
    """How many times as fast as `peer` ("best": the best of each row) aotarray is, row by row."""
    found = []
    for row in rows:
        ours = seconds(row, "aotarray", by)
        best = best_peer(row, by)
        theirs = (best[1] if best else None) if peer == "best" else seconds(row, peer, by)
        if ours and theirs:
            found.append(theirs / ours)
    return found


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else math.nan


def share(row: dict[str, Any], by: str) -> float | None:
    """The least time that the machine needs over ours, for rows that only move memory or multiply."""
    ours, limit = seconds(row, "aotarray", by), row["limit"]
    return limit["seconds"] / ours if ours and limit["kind"] in ("read", "copy", "triad", "fma") else None


def means(rows: list[dict[str, Any]], by: str) -> dict[str, dict[str, Any]]:
    """By peer and for the best of each row: geometric mean, rows compared, rows ahead and behind."""
    peers = sorted({p for row in rows for p in row["peers"]} - {"aotarray"})
    table = {}
    for peer in ("best", *peers):
        values = ratios(rows, peer, by)
        if values:
            table[peer] = {
                "mean": round(mean(values), 2),
                "rows": len(values),
                "behind": sum(v < BEHIND for v in values),
                "least": round(min(values), 2),
            }
    return table


def time_text(value: float | None) -> str:
    if value is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def table(rows: list[dict[str, Any]], names: list[str], by: str) -> str:
    """Every row: times, the ratio against NumPy and against the best peer, the share of the limit."""
    others = [n for n in names if n != "aotarray"]
    head = ["workload", "n", *others, "aotarray", "x NumPy", "x best", "best peer", "limit", ""]
    lines = [head]
    for row in rows:
        ours, best, part = seconds(row, "aotarray", by), best_peer(row, by), share(row, by)
        numpy = seconds(row, "numpy", by)
        status = row["peers"].get("aotarray", {}).get("status", "crashed")
        ratio = best[1] / ours if ours and best else None
        mark = status.upper() if ours is None else "BEHIND" if ratio is not None and ratio < BEHIND else ""
        lines.append([
            row["workload"], _count_text(row["elements"]),
            *(_cell(row, p, by) for p in others), _cell(row, "aotarray", by),
            f"{numpy / ours:.2f}" if ours and numpy else "-", f"{ratio:.2f}" if ratio else "-",
            best[0] if best else "-", f"{part:.0%} {row['limit']['kind']}" if part else "", mark,
        ])  # fmt: skip
    widths = [max(len(line[c]) for line in lines) for c in range(len(head))]
    shown = []
    for name, *cells in lines:
        padded = [cell.rjust(w) for cell, w in zip(cells, widths[1:], strict=True)]
        shown.append("  ".join([name.ljust(widths[0]), *padded]).rstrip())
    return "\n".join(shown)


def _cell(row: dict[str, Any], peer: str, by: str) -> str:
    found = row["peers"].get(peer, {})
    words = {"wrong": "wrong", "not supported": "no", "crashed": "crash"}
    return words.get(found.get("status", ""), time_text(found.get(by)))


def _count_text(count: int) -> str:
    """1000000 as 1e6, 2097152 as 2.1e6."""
    return str(count) if count < 1000 else f"{count:.1e}".replace("e+0", "e").replace(".0", "")


def text(run: dict[str, Any], by: str) -> str:
    """The whole report."""
    parts = []
    machine = run["machine"]
    caches = [f"{k} {v}" for k, v in machine["caches"].items()]
    size = [f"{machine['cores']} cores", machine["vectors"], *caches, f"{machine['memory_gib']} GiB"]
    parts.append(", ".join([machine["cpu"], *size]))
    parts.append(", ".join(f"{k} {v}" for k, v in run["versions"].items()))
    parts += [f"{peer}: {why}" for peer, why in run["absent"].items()]
    for threads in run["threads"]:
        rows = [r for r in run["rows"] if r["threads"] == threads]
        probes = ", ".join(f"{k} {v}" for k, v in run["probes"].get(str(threads), {}).items())
        parts.append(f"\n{threads} thread{'s' * (threads > 1)}, {by} times. Limits: {probes}\n")
        parts.append(table(rows, run["peers"], by))
        parts.append("\ngeometric mean of (their time / ours):")
        for peer, m in means(rows, by).items():
            name = "best of each row" if peer == "best" else peer
            counts = f"{m['rows']} rows, {m['behind']} behind, least {m['least']}"
            parts.append(f"  {name:18} {m['mean']:6.2f}   {counts}")
        parts += _notes(rows)
    return "\n".join(parts)


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"  {row['workload']}: {peer} {found['status']}: {found['message']}"
        for row in rows
        for peer, found in row["peers"].items()
        if found["status"] in ("not supported", "wrong", "crashed")
    ]
    return ["\nnotes:", *lines] if lines else []


def picture(run: dict[str, Any], by: str, path: str) -> None:
    """Bars of the ratio against each peer; time for one element where a workload ran at several sizes."""
    from matplotlib.figure import Figure

    threads = max(run["threads"])
    rows = [r for r in run["rows"] if r["threads"] == threads and seconds(r, "aotarray", by)]
    counts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        counts.setdefault(row["workload"], []).append(row)
    curves = {name: found for name, found in counts.items() if len(found) > 2}
    single = [r for r in rows if r["workload"] not in curves]
    names = [n for n in run["peers"] if n != "aotarray"]
    if single:
        figure = Figure(figsize=(11, 1.5 + 0.3 * len(single)), layout="constrained")
        axes = figure.subplots()
        for at, row in enumerate(single):
            ours = seconds(row, "aotarray", by)
            best = best_peer(row, by)
            assert ours is not None
            if best:
                behind = best[1] / ours < BEHIND
                axes.barh(at, best[1] / ours, color="#c44e52" if behind else "#b8c9df", height=0.7, zorder=1)
        for number, peer in enumerate(names):
            points = [(t / o, at) for at, row in enumerate(single)
                      if (t := seconds(row, peer, by)) and (o := seconds(row, "aotarray", by))]  # fmt: skip
            marker = "osD^vPX"[number % 7]
            axes.plot([x for x, _ in points], [y for _, y in points], marker, ms=5, label=peer, zorder=2)
        axes.axvline(1.0, color="black", lw=1)
        axes.set_xscale("log")
        axes.set_yticks(range(len(single)), [r["workload"] for r in single])
        axes.invert_yaxis()
        axes.set_ylim(len(single) - 0.4, -0.6)
        axes.set_xlabel(f"times as long as aotarray ({by}, {threads} threads); bar: the best peer of the row")
        axes.grid(axis="x", alpha=0.3)
        figure.legend(loc="outside upper right", ncols=len(names), fontsize="small")
        figure.suptitle(run["machine"]["cpu"], x=0.02, ha="left")
        figure.savefig(path, dpi=110)
    if curves:
        _curves(curves, run["peers"], by, path if not single else _beside(path))


def _beside(path: str) -> str:
    stem, dot, suffix = path.rpartition(".")
    return f"{stem}-sizes{dot}{suffix}" if dot else f"{path}-sizes"


def _curves(curves: dict[str, list[dict[str, Any]]], names: list[str], by: str, path: str) -> None:
    from matplotlib.figure import Figure

    columns = min(3, len(curves))
    lines = -(-len(curves) // columns)
    figure = Figure(figsize=(5 * columns, 3.6 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).flat
    for axes, (name, rows) in zip(panels, curves.items(), strict=False):
        for peer in names:
            timed = ((r["elements"], seconds(r, peer, by)) for r in rows)
            points = sorted((n, 1e9 * t / n) for n, t in timed if t)
            axes.plot([x for x, _ in points], [y for _, y in points], "o-", ms=3,
                      lw=2.5 if peer == "aotarray" else 1.2, label=peer)  # fmt: skip
        axes.set(title=name, xscale="log", yscale="log", xlabel="elements", ylabel="ns an element")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=110)
