"""Whole NumPy programs from `examples/`: what aotarray computes is what NumPy does, over sizes, dtypes and seeds."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

from program_cases import CASES

SINGLE = 3e-5  # relative, of float32


def flat(result):
    return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]


def assert_same(got, want, tolerance):
    for g, w in zip(flat(got), flat(want), strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if not tolerance or w.dtype.kind in "biu":
            np.testing.assert_array_equal(g, w)
        else:
            scale = np.max(np.abs(w), initial=0.0, where=np.isfinite(w))
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * scale)


@pytest.fixture(scope="module")
def compiled():
    made = {}

    def get(case):
        if case.name not in made:
            made[case.name] = case.compiled()
        return made[case.name]

    return get


@pytest.mark.filterwarnings("ignore::aotarray.errors.RecompileWarning")  # ranks and dtypes are many here
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_equals_numpy(case, compiled):
    function = compiled(case)
    for dtype in case.dtypes:
        tolerance = max(case.tolerance, SINGLE) if case.tolerance and dtype == "float32" else case.tolerance
        for size in case.sizes:
            for seed in (0, 1):
                arguments = case.arguments(size, dtype, seed)
                with np.errstate(all="ignore"):
                    want = case.function(*arguments)
                before = [np.array(a) for a in arguments]
                assert_same(function(*arguments), want, tolerance)
                for a, b in zip(arguments, before, strict=True):
                    np.testing.assert_array_equal(a, b)
