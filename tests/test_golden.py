"""The generated source and the fused plan of the examples, kept as text; `pytest --update-golden` rewrites them.

Each of these is one loop nest, and gives NumPy's numbers when its source is run as plain Python.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from plain_program import run_plain

import aotarray
from aotarray.fusion.verify import verify_kernel

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = Path(__file__).resolve().parent / "golden"
CASES = {
    "black_scholes": ("price", "f64[n], f64[n], f64[n]"),
    "haversine": ("haversine", "f64[n], f64[n], f64[n], f64[n]"),
    "softmax": ("softmax", "f64[n, m]"),
    "layer_norm": ("layer_norm", "f64[n, m], f64[m], f64[m]"),
    "laplacian": ("laplacian", "f64[n, m]"),
    "hillshade": ("hillshade", "f64[n, m], float, float"),
}
SIZES = {"n": 7, "m": 11}


def function(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, CASES[name][0])


def text(name):
    lowered = aotarray.lower(function(name), CASES[name][1])
    return f"{lowered.fused}\n\n{lowered.source}"


@pytest.mark.parametrize("name", CASES)
def test_the_examples_generate_this_source(name, request):
    path = GOLDEN / f"{name}.txt"
    found = text(name)
    if request.config.getoption("--update-golden"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text(), "run pytest --update-golden and read what changed"


@pytest.mark.parametrize("name", CASES)
def test_each_is_one_loop_nest_that_runs_as_plain_python(name):
    plan = aotarray.lower(function(name), CASES[name][1]).plan
    (kernel,) = plan.kernels
    verify_kernel(kernel)
    rng = np.random.default_rng(1)
    arguments = []
    for node in plan.graph.inputs:
        shape = tuple(SIZES[str(d)] for d in node.shape)
        arguments.append(rng.uniform(0.5, 2.0, shape) if shape else 1.5)
    expected = function(name)(*arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for want, got in zip(expected, run_plain(plan, arguments), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-15)


PRINT = """
import sys
from hashlib import sha256
sys.path[:0] = [{tests!r}]
import warnings; warnings.simplefilter("ignore")
import test_golden
from aotarray.runtime.encode import encode
import aotarray
from programs import Choices, build_program
for name, (_, spec) in test_golden.CASES.items():
    plan = aotarray.lower(test_golden.function(name), spec).plan
    print(name, sha256(encode(plan.program)).hexdigest(), sha256(test_golden.text(name).encode()).hexdigest())
for seed in range(25):
    program = build_program(Choices(seed))
    low = aotarray.lower(program.function(), *program.arguments)
    print(seed, sha256(encode(low.plan.program)).hexdigest(), sha256(low.source.encode()).hexdigest())
"""


def test_source_and_words_do_not_depend_on_the_process():
    """Byte for byte the same whatever the order of hashes."""
    printed = []
    for seed in ("0", "1", "4242"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PRINT.format(tests=str(Path(__file__).resolve().parent))]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        printed.append(run.stdout)
    assert printed[0].count("\n") == len(CASES) + 25
    assert printed[0] == printed[1] == printed[2]
