"""What a loop or choice can change: variables, arrays that are written into, lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...errors import TraceError
from ...graph import Node, SourceLine
from ..context import Trace
from ..tracer import Storage
from .rewrite import Site
from .values import Seen

Container = list[Any] | dict[Any, Any]


@dataclass
class Pass:
    """One time through a body: its number, and what it left behind."""

    number: int
    values: list[Any]
    seen: list[Seen]
    storages: dict[int, Storage]
    nodes: dict[int, Any]
    containers: dict[int, Container]
    contents: dict[int, Any]
    #: what it does beside, in order
    effects: list[Node] = field(default_factory=list)


class State:
    """The variables of one loop or choice as they are before it, and how to put all back."""

    def __init__(
        self, trace: Trace, site: Site, where: SourceLine, get: Callable[[], tuple[Any, ...]],
        put: Callable[[Any], None] | None,
    ) -> None:  # fmt: skip
        self.trace, self.site, self.where, self.get, self._put = trace, site, where, get, put
        values = get()
        self.names = site.names
        count = len(self.names) + len(site.dead)
        self.entry, self.dead = list(values[: len(self.names)]), values[len(self.names) : count]
        self.others = dict(zip(site.others, values[count:], strict=True))
        self.containers: dict[int, tuple[Container, Any, str]] = {}
        for name, value in zip((*self.names, *site.dead, *site.others), values, strict=True):
            self._collect(value, name)

    def _collect(self, value: Any, name: str) -> None:
        """Take down the lists and dicts in a value."""
        if type(value) in (list, dict) and id(value) not in self.containers:
            self.containers[id(value)] = (value, _contents(value), name)
        if type(value) in (list, tuple):
            for item in value:
                self._collect(item, name)
        elif type(value) is dict:
            for item in value.values():
                self._collect(item, name)

    def again(self) -> State:
        """The same, as things are now."""
        return State(self.trace, self.site, self.where, self.get, self._put)

    def put(self, values: list[Any]) -> None:
        if self._put is not None:
            self._put((*values, *self.dead))

    def restore_containers(self) -> None:
        for container, contents, _ in self.containers.values():
            fill(container, contents)

    @contextmanager
    def body(self) -> Iterator[Pass]:
        """One time through a body; afterwards all is as it was, and the pass says what the body did."""
        trace = self.trace
        with trace.body(writes=True) as number:
            run = Pass(number, [], [], {}, {}, {}, {})
            record = trace.written[number]
            try:
                yield run
                run.effects = trace.effects[-1]
                run.values = list(self.get()[: len(self.names)])
                run.seen = [Seen.of(trace, v) for v in run.values]
                for key, (storage, _) in record.items():
                    run.storages[key], run.nodes[key] = storage, storage.state
                for key, (container, contents, name) in self.containers.items():
                    now = _contents(container)
                    if not _unchanged(contents, now):
                        self._require_length(container, contents, now, name)
                        run.containers[key] = container
                        run.contents[key] = Seen.of(trace, now)
            finally:
                for storage, state in record.values():
                    storage.state = state
                self.restore_containers()
                self.put(self.entry)
                del trace.written[number]

    def _require_length(self, container: Container, before: Any, now: Any, name: str) -> None:
        if len(before) != len(now) or (isinstance(container, dict) and list(before) != list(now)):
            kind = type(container).__name__
            raise TraceError(
                f"{self.where}: {kind} {name!r} grows or shrinks in a loop or choice that values steer; make an array "
                f"before it and write into that (np.zeros), or keep the {kind}'s length"
            )

    def refuse(self) -> None:
        """TraceError where the source holds what no loop or choice of the program can do."""
        for line, what, way in self.site.refused:
            place = SourceLine(self.where.file, line, self.where.function)
            raise TraceError(
                f"{place}: {what} in a loop or choice that values steer cannot be compiled; {way}"
            )


def fill(container: Container, contents: Any) -> None:
    """Give a list or dict its contents."""
    if isinstance(container, list):
        container[:] = contents
    else:
        container.clear()
        container.update(contents)


def _contents(container: Container) -> Any:
    return tuple(container) if isinstance(container, list) else dict(container)


def _unchanged(before: Any, now: Any) -> bool:
    if len(before) != len(now):
        return False
    if isinstance(before, dict):
        return list(before) == list(now) and all(
            a is b for a, b in zip(before.values(), now.values(), strict=True)
        )
    return all(a is b for a, b in zip(before, now, strict=True))
