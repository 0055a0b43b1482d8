"""Random NumPy programs that write: views of views, overlapping reads and writes, loops that write, from a seed.

A program is plain source. It grows statement by statement; one that NumPy refuses, for any of the program's
inputs, or that gives values which are not small multiples of 1/8, is dropped. So all arithmetic is exact, and every
result must be NumPy's to the bit. A failing program shrinks by losing statements.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import reference
from programs import spell

DTYPES = (
    "float64",
    "float64",
    "float64",
    "float32",
    "float16",
    "int64",
    "int32",
    "int8",
    "uint8",
    "bool",
    "complex128",
)
#: sizes of the inputs that one program is run with
BINDINGS = (
    ({"n": 4, "m": 5}, {"n": 3, "m": 7}, {"n": 6, "m": 2}),
    ({"n": 5, "m": 3}, {"n": 2, "m": 4}, {"n": 8, "m": 3}),
    ({"n": 4, "m": 6}, {"n": 5, "m": 9}, {"n": 3, "m": 4}),
)
SPECIAL = (
    {"n": 1, "m": 3},
    {"n": 3, "m": 1},
    {"n": 0, "m": 3},
    {"n": 4, "m": 4},
    {"n": 0, "m": 0},
    {"n": 1, "m": 1},
)
SHAPES = (
    ("n",),
    ("n", "m"),
    ("n", "n"),
    ("m", "n"),
    ("m",),
    (),
    (3, "n"),
    ("n", 2, "m"),
    ("n", "m", 2),
    ("m", "m"),
)
LARGEST = {"float16": 200}


@dataclass
class Statement:
    """A line of source, or the lines before and after a body of further statements."""

    head: list[str]
    body: list[Statement] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    #: the number of the scope that its body is; 0 for a body in the same scope
    scope: int = 0

    def lines(self, notes: bool, depth: int = 1) -> Iterator[str]:
        yield from ("    " * depth + h for h in self.head)
        inner = depth + 1 if self.head else depth
        for statement in self.body:
            yield from statement.lines(notes, inner)
        if self.scope and notes:
            yield "    " * inner + f"note({self.scope}, locals())"
        yield from ("    " * depth + t for t in self.tail)


@dataclass
class Program:
    """Statements, the names that are returned, and several lists of arguments."""

    seed: int
    statements: list[Statement]
    results: list[str]
    inputs: list[list[Any]]

    def source(self, notes: bool = False) -> str:
        head = f"def program({', '.join(f'a{k}' for k in range(len(self.inputs[0])))}):"
        body = [line for s in self.statements for line in s.lines(notes)]
        if notes:
            body.append("    note(0, locals())")
        return "\n".join([head, *body, f"    return ({' '.join(f'{r},' for r in self.results)})", ""])

    def function(self, library: Any, note: Callable[..., None] | None = None) -> Callable[..., Any]:
        """The program with `library`'s loops and choices."""
        scope: dict[str, Any] = {"np": np, "aotarray": library, "note": note}
        exec(compile(self.source(note is not None), f"<mutating {self.seed}>", "exec"), scope)
        return scope["program"]  # type: ignore[no-any-return]

    def expected(self, which: int) -> list[np.ndarray]:
        """NumPy's results for one of the inputs; its arguments stay as they are."""
        with np.errstate(all="ignore"):
            return [np.array(r) for r in self.function(reference)(*(copied(a) for a in self.inputs[which]))]

    def report(self, what: str, which: int = 0) -> str:
        """A script that shows the failure by itself."""
        names = ", ".join(f"a{k}" for k in range(len(self.inputs[0])))
        lines = [
            f"seed {self.seed}, input {which}: {what}",
            "",
            "import numpy as np, aotarray",
            "",
            self.source(),
        ]
        lines += [f"a{k} = {spell(value)}" for k, value in enumerate(self.inputs[which])]
        return "\n".join([*lines, f"print(program({names}))", f"print(aotarray.jit(program)({names}))"])


def copied(value: Any) -> Any:
    """The same array in the same layout, with memory of its own."""
    return np.array(value, order="K") if isinstance(value, np.ndarray) else value


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The program without the statements and results that its failure does not need."""

    def without(statements: list[Statement]) -> Iterator[list[Statement]]:
        for k in reversed(range(len(statements))):
            yield statements[:k] + statements[k + 1 :]
        for k, s in enumerate(statements):
            if s.body and not s.scope:
                yield statements[:k] + s.body + statements[k + 1 :]
            for body in without(s.body):
                yield [*statements[:k], Statement(s.head, body, s.tail, s.scope), *statements[k + 1 :]]

    def smaller() -> Iterator[Program]:
        for k in range(len(program.results)):
            yield Program(
                program.seed,
                program.statements,
                program.results[:k] + program.results[k + 1 :],
                program.inputs,
            )
        for statements in without(program.statements):
            yield Program(program.seed, statements, program.results, program.inputs)

    def legal(candidate: Program) -> bool:
        try:
            for k in range(len(candidate.inputs)):
                candidate.expected(k)
        except Exception:
            return False
        return bool(candidate.results)

    while (found := next((c for c in smaller() if legal(c) and fails(c)), None)) is not None:
        program = found
    return program


class Maker:
    """Grows one program."""

    def __init__(self, seed: int, control: bool = True) -> None:
        self.random = random.Random(seed)
        self.control = control
        self.count = self.scopes = 0
        bindings = list(self.random.choice(BINDINGS))
        if self.chance(15):
            bindings[2] = self.random.choice(SPECIAL)
        kinds = [(self.pick(SHAPES), self.pick(DTYPES)) for _ in range(self.random.randint(1, 3))]
        kinds[0] = (self.pick(SHAPES[:5]), kinds[0][1])
        self.program = Program(seed, [], [], [[self.argument(*kind, b) for kind in kinds] for b in bindings])
        #: what the innermost scope that is being written holds: its number, and its statements
        self.where: list[tuple[int, list[Statement]]] = [(0, self.program.statements)]
        self.seen: list[dict[int, dict[str, Any]]] = []
        assert self.run()

    # -- choices ----------------------------------------------------------------------------------
    def pick(self, items: Any) -> Any:
        return self.random.choice(list(items))

    def chance(self, percent: int) -> bool:
        return self.random.random() * 100 < percent

    def argument(self, shape: tuple[Any, ...], dtype: str, binding: dict[str, int]) -> np.ndarray:
        sizes = [binding.get(d, d) for d in shape]
        values = np.array([self.random.randint(-9, 9) for _ in range(int(np.prod(sizes)))], np.int64)
        array = (values.reshape(sizes) % 10 if dtype[0] == "u" else values.reshape(sizes)).astype(dtype)
        if dtype[0] == "c":
            array = array + 1j * array[..., ::-1] if array.ndim else array + 2j
        layout = self.random.randint(0, 5)
        if layout == 1:
            return np.asfortranarray(array)
        if layout == 2 and array.ndim:
            return array[::-1].copy()[::-1]
        if layout == 3 and array.ndim:
            return np.repeat(array, 2, -1)[..., ::2]
        return array

    # -- running what there is ---------------------------------------------------------------------
    def run(self) -> bool:
        """Run the program with NumPy and all inputs; False where that fails or values are not exact."""
        seen: list[dict[int, dict[str, Any]]] = []
        for given in self.program.inputs:
            noted: dict[int, dict[str, Any]] = {}
            try:
                with np.errstate(all="ignore"):
                    self.program.function(reference, noted.__setitem__)(*(copied(a) for a in given))
            except (
                TypeError,
                ValueError,
                IndexError,
                OverflowError,
                AttributeError,
                UnboundLocalError,
                NameError,
            ):
                return False
            arrays = [
                v
                for values in noted.values()
                for v in values.values()
                if isinstance(v, (np.ndarray, np.generic))
            ]
            if not all(map(is_exact, arrays)):
                return False
            seen.append(noted)
        if any(scope not in noted for noted in seen for scope in scopes(self.program.statements)):
            return False  # what no step of a loop does has not been seen
        self.seen = seen
        return True

    def add(self, statement: Statement | str) -> bool:
        """Append a statement to the innermost scope, unless it is illegal."""
        statements = self.where[-1][1]
        statements.append(Statement([statement]) if isinstance(statement, str) else statement)
        if self.run():
            return True
        statements.pop()
        return False

    def env(self) -> dict[str, Any]:
        """The values of the innermost scope, for the first input."""
        return self.seen[0][self.where[-1][0]]

    def visible(self) -> dict[str, Any]:
        """All values that can be read: names of outer scopes too."""
        found: dict[str, Any] = {}
        for scope, _ in self.where:
            found |= {
                k: v
                for k, v in self.seen[0].get(scope, {}).items()
                if isinstance(v, (np.ndarray, np.generic))
            }
        return found

    def writable(self) -> list[str]:
        """Arrays that the innermost scope may write into: its own, and no argument's memory."""
        outer = [a for k, a in self.seen[0][0].items() if k.startswith("a") and isinstance(a, np.ndarray)]
        for scope, _ in self.where[:-1]:
            if scope not in self.open_scopes:
                outer += [v for v in self.seen[0].get(scope, {}).values() if isinstance(v, np.ndarray)]
        return [
            k for k, v in self.env().items()
            if isinstance(v, np.ndarray) and v.flags.writeable and not any(owner(v) is owner(o) for o in outer)
        ]  # fmt: skip

    #: scopes of plain functions, which write into their caller's arrays
    open_scopes: frozenset[int] = frozenset()

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def evaluate(self, text: str) -> Any:
        try:
            with np.errstate(all="ignore"):
                return eval(text, {"np": np, **self.visible()})
        except Exception:
            return None

    # -- texts --------------------------------------------------------------------------------------
    def slice_text(self) -> str:
        pairs = [
            "1:",
            ":-1",
            "::2",
            "1::2",
            "::-1",
            "::-2",
            "1:-1",
            ":2",
            "-2:",
            "2:",
            ":",
            "-1::-1",
            ":1",
            ":0",
            "-2::-1",
        ]
        return str(self.pick(pairs))

    def key_text(self, rank: int) -> str:
        items = [self.slice_text() if self.chance(60) else ":" for _ in range(rank)]
        if rank and self.chance(25):
            items[self.random.randrange(rank)] = self.pick(["0", "-1", "1", "0"])
        if self.chance(10):
            items.insert(self.random.randint(0, len(items)), "None")
        if rank > 1 and self.chance(15):
            items = ["...", *items[-1:]] if self.chance(50) else [items[0], "..."]
        return ", ".join(items) or "..."

    def view_text(self, x: str, value: Any) -> str:
        """An expression that sees `x` in another way, in most cases without moving its elements."""
        rank = np.ndim(value)
        texts = [f"{x}[{self.key_text(rank)}]"] * 6 + [
            f"{x}.T",
            f"{x}[...]",
            f"{x}[None]",
            f"np.expand_dims({x}, -1)",
        ]
        if value.dtype.kind == "c":
            texts += [f"{x}.real", f"{x}.imag"] * 2
        if rank:
            texts += [
                f"{x}[::-1]",
                f"np.flip({x})",
                f"{x}[1:]",
                f"{x}[:-1]",
                f"np.squeeze({x})",
                f"np.atleast_2d({x})",
            ]
            if ordered(value):
                shapes = [
                    "-1",
                    f"({x}.shape[0], -1)",
                    f"(-1, {x}.shape[-1])",
                    f"{x}.shape[::-1]",
                    "(2, -1)",
                    "(-1, 2)",
                ]
                texts += [f"{x}.reshape({self.pick(shapes)})"] * 3 + [
                    f"{x}.ravel()",
                    f"{x}.flatten()",
                    f"np.ravel({x})",
                ]
        if rank >= 2:
            axes = list(range(rank))
            self.random.shuffle(axes)
            texts += [
                f"np.swapaxes({x}, 0, -1)", f"{x}.transpose({axes})", f"np.moveaxis({x}, 0, -1)", f"np.rot90({x})",
                f"np.fliplr({x})", f"np.diagonal({x})", f"{x}.diagonal(1)", f"np.rollaxis({x}, 1)", f"np.flip({x}, 1)",
                f"np.array_split({x}, 2)[1]", f"np.array_split({x}, 2, axis=1)[0]", f"{x}.swapaxes(0, 1)[1:]",
            ]  # fmt: skip
        if rank == 1:
            texts += [f"np.broadcast_to({x}, (3, *{x}.shape))", f"{x}[:, None]", f"{x}[None, :]"]
        return str(self.pick(texts))

    def seen_text(self, only: list[str] | None = None) -> tuple[str, Any] | None:
        """A name, or a view of a view of it, and its value."""
        values = self.visible()
        names = [n for n in (values if only is None else only) if isinstance(values[n], np.ndarray)]
        if not names:
            return None
        text = str(names[-1 - min(self.random.randrange(len(names)), self.random.randrange(len(names)))])
        value = values[text]
        for _ in range(self.pick([0, 0, 1, 1, 2, 3])):
            further = self.view_text(text, value)
            found = self.evaluate(further)
            if isinstance(found, np.ndarray) and found.ndim <= 4 and found.size <= 2000:
                text, value = further, found
        return text, value

    def source(self, shape: tuple[int, ...], dtype: np.dtype, near: str | None = None) -> str:
        """An expression that fits into an array: of views, also of the array `near`, or a number."""
        for _ in range(14):
            names = [near] if near is not None and self.chance(35) else None
            found = self.seen_text(names)
            if found is None:
                continue
            text, value = found
            try:
                fits = np.broadcast_shapes(value.shape, shape) == shape
            except ValueError:
                continue
            if (
                fits
                and np.can_cast(value.dtype, dtype, "same_kind")
                and (value.ndim or not shape or self.chance(10))
            ):
                return self.computed(text, value, shape, dtype)
        return str(self.pick(["1", "2", "3", "0", "True"] if dtype.kind != "b" else ["True", "False"]))

    def computed(self, text: str, value: Any, shape: tuple[int, ...], dtype: np.dtype) -> str:
        kind = dtype.kind
        if kind == "b" or self.chance(45):
            return text
        forms = [
            f"{text} + 1",
            f"{text} * 2",
            f"1 + {text}",
            f"np.maximum({text}, 1)",
            f"({text}).copy()",
            f"abs({text})",
        ]
        if kind in "if":
            forms += [f"-{text}", f"np.where({text} > 0, {text}, 2)", f"np.minimum({text}, 3)"]
        other = self.seen_text()
        if (
            other is not None
            and other[1].shape == value.shape
            and np.can_cast(other[1].dtype, dtype, "same_kind")
        ):
            forms += [f"{text} + {other[0]}", f"np.where({other[0]} > 0, {text}, {other[0]})"] * 3
        return str(self.pick(forms))

    def integers(self, extent: int, values: int) -> str:
        """Positions on an axis, with repeats; all are inside for every size that is at least 2."""
        if extent < 2:
            return "[]"
        listed = [self.pick([0, 1, -1, 0, -2, 1]) for _ in range(values)]
        return f"np.array({listed})" if self.chance(60) else str(listed)

    # -- statements ----------------------------------------------------------------------------------
    def new_array(self) -> None:
        found = self.seen_text()
        if found is None:
            return
        text, value = found
        dtype = self.pick(DTYPES)
        forms = [f"{text}.copy()"] * 5 + [
            f"np.array({text})", f"{text} + 1", f"{text} * 2", f"np.zeros({text}.shape)", f"np.ones_like({text})",
            f"np.full({text}.shape, 2, np.{dtype})", f"np.zeros_like({text})",
            f"{text}.flatten()" if ordered(value) else text,
            f"np.concatenate([{text}, {text}])", f"{text} + {text}", f"np.sort({text}, axis=0)",
            f"np.stack([{text}, {text}], 1)",
            f"np.asarray({text})", f"{text}.astype(np.{value.dtype}, copy=False)", f"np.roll({text}, 1)",
            f"np.tile({text}, 2)",
            f"{text}.take([0, 0, 1], axis=0)", f"{text}[{self.integers(2, 3)}]", f"np.where({text} > 0, {text}, 0)",
        ]  # fmt: skip
        if value.dtype.kind in "iufb" and value.dtype != np.float16:
            forms += [f"{text}.sum(axis=0)", f"{text}.max(axis=-1)", f"np.cumsum({text}, axis=0)"]
        if value.dtype.kind in "iufb" and np.dtype(dtype).kind in "fc":
            forms.append(f"{text}.astype(np.{dtype})")
        self.add(f"{self.name()} = {self.pick(forms)}")

    def new_view(self) -> None:
        own = self.writable()
        found = self.seen_text(own if own and self.chance(80) else None)
        if found is not None:
            self.add(f"{self.name()} = {found[0]}")

    def write(self) -> None:
        own = self.writable()
        found = self.seen_text(own) if own else None
        if found is None or not found[1].flags.writeable:
            return
        text, value = found
        rank = value.ndim
        kind = self.random.randint(0, 13)
        key = self.key_text(rank)
        if kind in (4, 5) and rank:  # integer arrays, with repeats
            axis = self.random.randrange(rank)
            count = self.pick([1, 2, 3])
            items = [":"] * axis + [self.integers(min(v.shape[axis] for v in [value]), count)]
            if self.chance(30) and axis + 1 < rank:
                items.append(self.integers(value.shape[axis + 1], count))
            key = ", ".join(items)
        elif kind in (6, 7) and rank:  # masks
            mask = self.pick(
                [
                    f"{text} > 1",
                    f"{text} <= 0",
                    f"{text} == {text}",
                    f"{text}[..., ::-1] > 0",
                    f"abs({text}) > 3",
                ]
            )
            self.write_masked(text, mask, value)
            return
        elif kind == 8:
            self.write_by_function(text, value)
            return
        elif kind == 9:
            self.write_out(text, value)
            return
        region = self.evaluate(f"{text}[{key}]")
        if region is None or "None" in key:
            return
        root = text.split("[")[0].split(".")[0]
        source = self.source(np.shape(region), value.dtype, root if root in own else None)
        sign = (
            self.pick(["=", "=", "=", "+=", "-=", "*="])
            if value.dtype.kind != "b"
            else self.pick(["=", "|=", "^="])
        )
        if "(" in text or (text.endswith((".T", ".real", ".imag"))) or self.chance(85):
            self.add(f"{text}[{key}] {sign} {source}")
        elif text.isidentifier():
            sign = "+=" if sign == "=" else sign
            self.add(f"{text} {sign} {self.source(value.shape, value.dtype, root)}")

    def write_masked(self, text: str, mask: str, value: Any) -> None:
        if self.chance(30):
            m = self.name()
            if not self.add(f"{m} = {mask}"):
                return
            mask = m
        number = self.pick(["0", "1", "2"])
        sign = self.pick(["=", "+=", "*="]) if value.dtype.kind != "b" else "="
        other = self.seen_text()
        forms = [f"{text}[{mask}] {sign} {number}"] * 2
        if (
            other is not None
            and other[1].shape == value.shape
            and np.can_cast(other[1].dtype, value.dtype, "same_kind")
        ):
            forms += [f"np.copyto({text}, {other[0]}, where={mask})"] * 2
            if mask.isidentifier():
                forms += [f"{text}[{mask}] {sign} {other[0]}[{mask}]"] * 3
        self.add(str(self.pick(forms)))

    def write_by_function(self, text: str, value: Any) -> None:
        rank, shape, dtype = value.ndim, value.shape, value.dtype
        one = self.pick(["1", "2", "3"])
        forms = [f"{text}.fill({one})", f"np.copyto({text}, {self.source(shape, dtype)})"]
        if rank:
            at = self.integers(shape[0], 3)
            forms += [
                f"np.add.at({text}, {at}, {self.source(shape[1:], dtype)})", f"np.put({text}, [0, -1, 0], [1, 2, 3])",
                f"np.multiply.at({text}, {at}, {one})", f"np.place({text}, {text} > 0, [1, 0, 2])",
                f"np.putmask({text}, {text} > 0, {self.source(shape, dtype)})", f"np.maximum.at({text}, {at}, {one})",
                f"np.subtract.at({text}, {text} > 0, 1)", f"{text}.sort(axis=0)", f"{text}.sort()",
                f"np.put_along_axis({text}, np.argsort({text}, axis=0, kind='stable'), {self.source(shape, dtype)}, 0)",
            ]  # fmt: skip
        if rank >= 2:
            forms += [f"np.fill_diagonal({text}, {one})"]
        self.add(str(self.pick(forms)))

    def write_out(self, text: str, value: Any) -> None:
        dtype, shape = value.dtype, value.shape
        near = text if text.isidentifier() else None
        a, b = self.source(shape, dtype, near), self.source(shape, dtype, near)
        if dtype.kind == "b":
            self.add(f"np.logical_xor({a}, {b}, out={text})")
            return
        forms = [f"np.{self.pick(['add', 'subtract', 'multiply', 'maximum'])}({a}, {b}, out={text})"] * 3
        forms += [f"np.add({a}, {b}, out={text}, where={text} > 0)", f"np.negative({a}, out={text})"]
        forms += [
            f"np.cumsum({text}, axis=0, out={text})",
            f"np.clip({a}, 0, 3, out={text})",
            f"np.square({a}, {text})",
        ]
        if value.ndim >= 2:
            forms.append(f"np.sum({text}, axis=0, out={text}[0])")
        self.add(str(self.pick(forms)))

    def exchange(self) -> None:
        own = self.writable()
        if len(own) < 2:
            return
        a, b = self.random.sample(own, 2)
        forms = [
            f"{a}, {b} = {b}, {a}",
            f"{a} = {b}",
            f"{a}[0], {a}[-1] = {a}[-1], {a}[0]",
            f"{a}[0], {b}[0] = {b}[0], {a}[0]",
        ]
        forms.append(f"{a}[...], {a}[::-1] = {a}[::-1].copy(), {a}[...]")
        self.add(str(self.pick(forms)))

    def python_loop(self) -> None:
        name = f"i{self.count}"
        self.count += 1
        found = self.seen_text(self.writable()) if self.writable() else None
        if found is None or not found[1].ndim:
            return
        text = found[0]
        first = self.pick([
            f"{text}[{name}] += {text}[{name} - 1]", f"{text}[{name}] = {text}[-{name}] * 2", f"{text}[{name}:] += 1",
            f"{text}[..., {name}:] = {text}[..., {name} - 1 : -1]",
        ])  # fmt: skip
        self.add(Statement([f"for {name} in range(1, {self.pick(['2', '3'])}):"], [Statement([first])]))

    # -- functions, loops and choices ---------------------------------------------------------------
    def nested(self, statement: Statement, size: int, closed: bool) -> None:
        """Fill the body of a function whose statement has been added."""
        self.where.append((statement.scope, statement.body))
        before = self.open_scopes
        if not closed:
            self.open_scopes = before | {self.where[-2][0]}
        else:
            self.open_scopes = frozenset()
        for _ in range(size):
            self.step()
        self.where.pop()
        self.open_scopes = before

    def scope(self) -> int:
        self.scopes += 1
        return self.scopes

    def function(self) -> None:
        """A function that is called with arrays, and writes into them."""
        own = self.writable()
        found = [f for f in (self.seen_text(own), self.seen_text()) if f] if own else []
        if len(found) < 2:
            return
        name, scope = f"f{self.scope()}", self.scopes
        first = f"p{scope}[...] = 1" if found[0][1].ndim == 0 else f"p{scope}[0] = q{scope}[-1]"
        body = Statement([f"def {name}(p{scope}, q{scope}):"], [Statement([first])], [], scope)
        call = Statement([], [body, Statement([f"{self.name()} = {name}({found[0][0]}, {found[1][0]})"])])
        body.tail = [f"    return {self.pick([f'p{scope}', f'p{scope}[1:]', f'q{scope}'])}"]
        if self.add(call):
            self.nested(body, self.random.randint(1, 3), closed=False)

    def loop(self) -> None:
        """A loop that carries one or two arrays, some of them views of what it may not write into."""
        values = [f for f in (self.seen_text(), self.seen_text()) if f and f[1].ndim]
        if not values:
            return
        scope = self.scope()
        carried = [f"c{scope}", f"d{scope}"][: len(values)]
        init = " ".join(f"{t}," for t, _ in values)
        returned = list(carried)
        if (
            len(values) == 2
            and values[0][1].shape == values[1][1].shape
            and values[0][1].dtype == values[1][1].dtype
        ):
            returned = self.pick([returned, returned[::-1], [carried[0]] * 2])
        unpack = f"    {' '.join(f'{c},' for c in carried)} = carry"
        out = " ".join(f"{r}," for r in returned)
        name, result = f"f{scope}", self.name()
        count = self.pick(["2", "3", "1", "4", f"{values[0][0]}.shape[0]"])
        kind = self.pick(["fori_loop", "fori_loop", "while_loop", "scan"])
        c, d = carried[0], carried[-1]
        write = self.pick([f"{c}[1:] = {c}[:-1]", f"{c} *= 1", f"{c}[0] = {d}[-1]", f"{c}[...] = {c}[::-1]"])
        first = Statement([write])
        if kind == "fori_loop":
            if self.chance(40):
                first = Statement(
                    [self.pick([f"{carried[0]}[i] = {carried[0]}[0]", f"{carried[0]}[i % 2] += 1"])]
                )
            body = Statement([f"def {name}(i, carry):", unpack], [first], [f"    return ({out})"], scope)
            lower = self.pick(["0", "0", "1"])
            call = f"{result} = aotarray.fori_loop({lower}, {count}, {name}, ({init}))"
        elif kind == "while_loop":
            unpack = f"    k, {' '.join(f'{c},' for c in carried)} = carry"
            body = Statement([f"def {name}(carry):", unpack], [first], [f"    return (k + 1, {out})"], scope)
            test = f"lambda carry: carry[0] < {self.random.randint(1, 3)}"
            call = f"{result} = aotarray.while_loop({test}, {name}, (0, {init}))[1:]"
        else:
            row = self.seen_text()
            if row is None or not row[1].ndim:
                return
            stacked = self.pick(["x", carried[0], f"{carried[0]}[0]", f"(x, {carried[0]})"])
            body = Statement(
                [f"def {name}(carry, x):", unpack], [first], [f"    return ({out}), {stacked}"], scope
            )
            reverse = self.pick(["", ", reverse=True"])
            call = f"{result}, {self.name()} = aotarray.scan({name}, ({init}), {row[0]}{reverse})"
        taken = " ".join(f"{self.name()}," for _ in carried)
        made = Statement([], [body, Statement([call]), Statement([f"{taken} = {result}"])])
        if self.add(made):
            self.nested(body, self.random.randint(1, 4), closed=True)

    def choice(self) -> None:
        """A choice between functions that write into arrays of their own."""
        found, test = self.seen_text(), self.seen_text()
        if found is None or test is None:
            return
        bodies = []
        for _ in range(2):
            scope = self.scope()
            first = Statement([f"y{scope} = p{scope}.copy()"])
            body = Statement([f"def f{scope}(p{scope}):"], [first], [f"    return y{scope}"], scope)
            bodies.append(body)
        left, right = (f"f{b.scope}" for b in bodies)
        condition = f"({test[0]}).sum() > 0" if test[1].dtype.kind != "c" else "True"
        call = self.pick([
            f"aotarray.cond({condition}, {left}, {right}, {found[0]})",
            f"aotarray.switch(({test[0]} != 0).sum(), [{left}, {right}, {left}], {found[0]})",
        ])  # fmt: skip
        if self.add(Statement([], [*bodies, Statement([f"{self.name()} = {call}"])])):
            for body in bodies:
                self.nested(body, self.random.randint(1, 2), closed=True)

    # -- the whole ------------------------------------------------------------------------------------
    def step(self) -> None:
        wheel = (
            [self.new_array] * 4
            + [self.new_view] * 5
            + [self.write] * 12
            + [self.exchange]
            + [self.python_loop]
        )
        if len(self.where) < 3:
            wheel += [self.function]
            if self.control:
                wheel += [self.loop] * 2 + [self.choice]
        self.pick(wheel)()

    def finish(self) -> Program:
        names = [n for n, v in self.seen[0][0].items() if isinstance(v, (np.ndarray, np.generic))]
        local = [n for n in names if not n.startswith("a")]
        self.program.results = self.random.sample(local, min(len(local), 8)) or names[:1]
        if self.chance(15):
            self.program.results.append(self.pick(names))
        return self.program


def scopes(statements: list[Statement]) -> Iterator[int]:
    """The numbers of all scopes."""
    for statement in statements:
        if statement.scope:
            yield statement.scope
        yield from scopes(statement.body)


def owner(value: np.ndarray) -> np.ndarray:
    """The array whose memory this one shows."""
    while isinstance(value.base, np.ndarray):
        value = value.base
    return value


def ordered(value: np.ndarray) -> bool:
    """True where the memory that an array shows lies in C order."""
    return bool(owner(value).flags.c_contiguous)


def is_exact(value: Any) -> bool:
    """Small multiples of 1/8: all sums and products of a few of them are exact."""
    if value.dtype.kind == "c":
        return is_exact(value.real) and is_exact(value.imag)
    if value.dtype.kind != "f":
        return value.dtype.kind in "biu"
    limit = 250 if value.dtype == np.float16 else 2000
    wide = np.asarray(value, np.float64)
    return bool(np.all(np.abs(wide) <= limit) and np.all(wide * 8 == np.rint(wide * 8)))


def build(seed: int, size: int = 12, control: bool = True) -> Program:
    """The program of a seed, of about `size` statements."""
    maker = Maker(seed, control)
    maker.add(f"{maker.name()} = a0.copy()")
    for _ in range(size):
        maker.step()
    return maker.finish()
