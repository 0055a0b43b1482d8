"""Plain Python loops and choices over traced values: the decorated function against the plain one."""

import numpy as np
import pytest
from agreement import assert_same, leaves
from python_flow_programs import PROGRAMS

import aotarray
from aotarray.interpret import interpret
from aotarray.passes import simplify
from aotarray.verify import verify


def copies(arguments):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def check(function, arguments):
    """Compiled and interpreted, the function gives what Python and NumPy give."""
    with np.errstate(all="ignore"):
        expected = leaves(function(*copies(arguments)))
    compiled = aotarray.jit(function, control_flow="python")
    graph = aotarray.trace(compiled, *arguments)
    verify(graph)
    results = [interpret(verify(simplify(graph), simplified=True), arguments), leaves(compiled(*arguments))]
    for found in results:
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            kept = np.asarray(other)
            assert_same(np.asarray(one).astype(kept.dtype), kept, scale=10)


@pytest.mark.parametrize(("function", "calls"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_a_program_gives_what_numpy_gives(function, calls):
    for arguments in calls:
        check(function, arguments)
