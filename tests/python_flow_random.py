"""Random functions with loops and choices, as source text from a seed.

All arithmetic is exact to the bit in both worlds, so that a condition never goes another way: element-wise
operations, minima and maxima, integers modulo small numbers.
"""

import linecache
import random

SETUP = """\
def function(x, y, p, n):
    a, b = x.copy(), y * 0.5
    s, t, m, d = 0.5, p, 1, 0
"""
SCALARS, WHOLE = ("s", "t"), ("m", "d")


class Writer:
    """Writes one function."""

    def __init__(self, seed):
        self.pick = random.Random(seed)
        self.lines = []
        self.names = 0

    def text(self):
        for _ in range(self.pick.randint(3, 6)):
            self.statement(1, 3, False, [])
        return SETUP + "\n".join(self.lines) + "\n    return a, b, s, t, m, d\n"

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    # -- expressions ----------------------------------------------------------------------------
    def whole(self, counters):
        """A small integer that is never negative."""
        choices = ["m", "d", "n", "2", "len(a)", *counters]
        one, other = self.pick.choice(choices), self.pick.choice(choices)
        return self.pick.choice(
            [one, f"({one} + {other})", f"({one} * {other} + 1)", f"({one} + {other}) // 2"]
        )

    def position(self, counters):
        return self.pick.choice(["0", "-1", f"{self.whole(counters)} % len(a)"])

    def scalar(self, counters):
        """A float that stays small."""
        k = self.position(counters)
        return self.pick.choice([
            "0.25", "s * 0.5", "t * 0.75", "p", f"a[{k}]", f"b[{k}] * 0.5", f"(s - a[{k}]) * 0.5", "max(s, t) * 0.9",
            f"min(s, b[{k}])", "abs(t) * 0.5", f"s + {self.whole(counters)} % 3", "a.max() * 0.5", "b.min() * 0.5",
            f"(s if {self.condition(counters)} else t * 0.5)", "half(s)", f"clip(a[{k}])", "-t",
            "(s and t)", "(s or p)",
        ])  # fmt: skip

    def array(self):
        return self.pick.choice([
            "a * 0.5", "b * 0.5 + 0.1", "a - b * 0.5", "np.minimum(a, b)", "a[::-1] * 0.5",
            "np.where(a > s, a * 0.5, b)", "b + s * 0.1", "np.abs(a) * 0.9",
        ])  # fmt: skip

    def condition(self, counters):
        k = self.position(counters)
        simple = [
            "s > t", "s > 0", f"a[{k}] < b[0]", "p > 0", f"{self.whole(counters)} % 2 == 0",
            f"{self.whole(counters)} < 5", "a.max() > 1", "-1 < s < t + 1", f"{self.whole(counters)} % 3 in (0, 2)",
            "n",
            "m % 2 and t > 0", "len(a) > 3",
        ]  # fmt: skip
        one, other = self.pick.choice(simple), self.pick.choice(simple)
        return self.pick.choice([one, one, f"not {one}", f"({one}) and ({other})", f"({one}) or ({other})"])

    # -- statements -----------------------------------------------------------------------------
    def statement(self, depth, room, in_loop, counters):
        simple = [self.assign, self.write, self.assign, self.write, self.swap, self.view]
        compound = [self.choice, self.choice, self.count, self.along, self.repeat]
        kinds = simple + (compound * 2 if room else [])
        self.pick.choice(kinds)(depth, room, in_loop, counters)

    def block(self, depth, room, in_loop, counters):
        for _ in range(self.pick.randint(1, 3)):
            self.statement(depth, room, in_loop, counters)

    def assign(self, depth, room, in_loop, counters):
        kind = self.pick.random()
        if kind < 0.5:
            self.line(depth, f"{self.pick.choice(SCALARS)} = {self.scalar(counters)}")
        elif kind < 0.6:
            self.line(depth, f"{self.pick.choice(SCALARS)} += {self.scalar(counters)}")
            self.line(depth, "s *= 0.5")
            self.line(depth, "t *= 0.5")
        elif kind < 0.85:
            self.line(depth, f"{self.pick.choice(WHOLE)} = {self.whole(counters)} % 7")
        else:
            name = self.pick.choice("ab")
            self.line(depth, f"{name} = {self.array()}")

    def write(self, depth, room, in_loop, counters):
        name, k = self.pick.choice("ab"), self.position(counters)
        self.line(depth, self.pick.choice([
            f"{name}[{k}] = {self.scalar(counters)}", f"{name}[{k}] = {self.scalar(counters)}",
            f"{name}[1:] = {self.pick.choice('ab')}[:-1] * 0.5", f"{name}[1:-1] += 0.25", f"{name} *= 0.5",
            f"{name}[:2] = s", f"{name}[{k}] *= 0.5", f"{name} += {self.pick.choice('ab')} * 0.25", f"{name} *= 0.5",
        ]))  # fmt: skip

    def view(self, depth, room, in_loop, counters):
        self.names += 1
        name = f"v{self.names}"
        self.line(depth, f"{name} = {self.pick.choice(['a[1:]', 'b[::-1]', 'a[::2]', 'b[:-1]'])}")
        self.line(depth, f"{name}[{self.pick.choice(['0', '-1', '...', '1:'])}] = {self.scalar(counters)}")
        self.line(depth, f"{self.pick.choice(SCALARS)} = {name}[0] * 0.5")

    def swap(self, depth, room, in_loop, counters):
        self.line(depth, self.pick.choice(["s, t = t, s", "a, b = b, a", "m, d = d, m", "s, m = t, d"]))

    def choice(self, depth, room, in_loop, counters):
        self.line(depth, f"if {self.condition(counters)}:")
        self.block(depth + 1, room - 1, in_loop, counters)
        if in_loop and self.pick.random() < 0.35:
            self.line(depth + 1, self.pick.choice(["break", "continue", "return a, b, s, t, m, d"]))
        elif self.pick.random() < 0.08:
            self.line(depth + 1, "return a, b, s, t, m, d")
        if self.pick.random() < 0.3:
            self.line(depth, f"elif {self.condition(counters)}:")
            self.block(depth + 1, room - 1, in_loop, counters)
        if self.pick.random() < 0.5:
            self.line(depth, "else:")
            self.block(depth + 1, room - 1, in_loop, counters)

    def count(self, depth, room, in_loop, counters):
        self.names += 1
        k = f"k{self.names}"
        span = self.pick.choice([
            "n", "m + 1", "3", "11", "len(a)", "1, len(a)", "len(a) - 1, -1, -1", "0, len(a), 2", "n, -1, -2",
            "d, n + 1",
        ])  # fmt: skip
        self.loop(depth, room, f"for {k} in range({span}):", [*counters, k])

    def along(self, depth, room, in_loop, counters):
        self.names += 1
        k, v = f"k{self.names}", f"w{self.names}"
        head, more = self.pick.choice([
            (f"for {v} in x:", []), (f"for {k}, {v} in enumerate(y):", [k]),
            (f"for {v}, {k} in zip(x, range(n)):", [k]), (f"for {v} in reversed(y):", []),
        ])  # fmt: skip
        self.loop(depth, room, head, counters + more, f"{self.pick.choice(SCALARS)} = {v} * 0.5")

    def repeat(self, depth, room, in_loop, counters):
        self.names += 1
        k = f"j{self.names}"
        self.line(depth, f"{k} = 0")
        limit = self.pick.choice(["n", "4", "m", "len(a)"])
        head = self.pick.choice(
            [f"while {k} < {limit} and ({self.condition(counters)}):", f"while {k} < {limit}:"]
        )
        self.loop(depth, room, head, [*counters, k], f"{k} += 1")

    def loop(self, depth, room, head, counters, first=None):
        self.line(depth, head)
        if first:
            self.line(depth + 1, first)
        self.block(depth + 1, room - 1, True, counters)
        if self.pick.random() < 0.15:
            self.line(depth, "else:")
            self.line(depth + 1, f"d = {self.whole(counters[:-1])} % 5")


def half(v):
    if v > 0:
        return v * 0.5
    return v * 0.25


def clip(v, low=-1.0, high=1.0):
    return low if v < low else high if v > high else v


def function(seed):
    """The text of a random function, and the function."""
    import numpy as np

    text = Writer(seed).text()
    name = f"<random {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"np": np, "half": half, "clip": clip, "__name__": "random_program"}
    exec(compile(text, name, "exec"), namespace)
    return text, namespace["function"]
