"""Random programs give NumPy's dtypes, shapes and values, whichever way they run.

AOTARRAY_FUZZ=20 runs twenty times as many. A failure prints a script that shows it by itself.
"""

from __future__ import annotations

import importlib.util
import os
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from plain_program import run_plain
from programs import Builder, Choices, build_program, compare, programs

import aotarray
from aotarray import compiler
from aotarray.fusion.verify import verify_kernel
from aotarray.interpret import interpret
from aotarray.passes import PASSES
from aotarray.verify import verify

SCALE = int(os.environ.get("AOTARRAY_FUZZ", "1"))
BLOCKS = range(8)
#: every way has programs of its own: the block's number times this, and the way's offset
STRIDE = 1_000_000

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """These programs are of no use to anyone later."""
    before = os.environ.get("AOTARRAY_CACHE_DIR")
    os.environ["AOTARRAY_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    compiler.cache.cache_clear()
    yield
    os.environ.pop("AOTARRAY_CACHE_DIR")
    if before is not None:
        os.environ["AOTARRAY_CACHE_DIR"] = before
    compiler.cache.cache_clear()


def some(block, count, offset, max_ops=14, steps=Builder.STEPS):
    """Programs of one block of one way; the same in every run."""
    for k in range(count * SCALE):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield build_program(Choices(block * STRIDE + offset + k), max_ops, steps)


def check(program, found):
    difference = compare(program, found)
    assert difference is None, str(difference)


def interpreted(program):
    """The traced graph's results, and after each pass; every graph is legal."""
    graph = verify(aotarray.trace(program.function(), *program.arguments))
    check(program, interpret(graph, program.arguments))
    for step in PASSES:
        graph = verify(step(graph))
    verify(graph, simplified=True)
    check(program, interpret(graph, program.arguments))


@settings(max_examples=150 * SCALE, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(program=programs())
def test_graphs_equal_numpy(program):
    interpreted(program)


@pytest.mark.parametrize("block", BLOCKS)
def test_interpreted_equals_numpy(block):
    for program in some(block, 250, 0):
        interpreted(program)


@pytest.mark.parametrize("block", BLOCKS)
def test_indexing_and_sorting_equal_numpy(block):
    for program in some(block, 40, 500_000, 12, Builder.INDEXING_STEPS):
        interpreted(program)


@pytest.mark.parametrize("block", BLOCKS)
def test_generated_source_run_as_plain_python_equals_numpy(block):
    """With sizes that are arguments, and with fixed ones; a kernel's range may be cut anywhere."""

    def thirds(count, grain):
        return [count // grain // 3 * grain, count // grain * 2 // 3 * grain]

    for k, program in enumerate(some(block, 20, 100_000)):
        if any(r.size > 5000 for r in (*program.results, *program.bounds)):
            continue
        given = (program.spec(),) if k % 3 == 0 else program.arguments
        plan = aotarray.lower(program.function(), *given).plan
        for kernel in plan.kernels:
            verify_kernel(kernel)
        check(program, run_plain(plan, program.arguments, thirds))


@pytest.mark.parametrize("block", BLOCKS)
def test_jit_equals_numpy(block):
    for program in some(block, 30, 200_000):
        check(program, aotarray.jit(program.function())(*program.arguments))


def test_long_programs_equal_numpy():
    for program in some(0, 6, 300_000, max_ops=60):
        interpreted(program)
        check(program, aotarray.jit(program.function())(*program.arguments))


@pytest.mark.skipif(not hasattr(aotarray, "build"), reason="nothing is built yet")
@pytest.mark.parametrize("block", range(2))
def test_built_modules_equal_numpy(block, tmp_path):
    """Many programs in one module, which links once."""
    made = list(some(block, 10, 400_000))
    work = []
    for k, program in enumerate(made):
        function = program.function()
        function.__name__ = function.__qualname__ = f"program_{k}"
        work.append((function, [program.spec()]))
    name = f"fuzz_{block}"
    aotarray.build(work, name=name, out=tmp_path, cpu="native")
    (path,) = tmp_path.glob(f"{name}*.so")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for k, program in enumerate(made):
        check(program, getattr(module, f"program_{k}")(*program.arguments))
