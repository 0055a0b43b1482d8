"""Modules built ahead of time: they equal NumPy, stand alone, choose versions and variants, and refuse bad input."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import aotarray
from aotarray.aot.elf import read_dynamic
from aotarray.errors import LinkError, SpecError

EXAMPLES = Path(__file__).parent.parent / "examples"
SIGNATURE = "(s: f64[n], k: f64[n], t: f64[n])"


def load(path):
    spec = importlib.util.spec_from_file_location(Path(path).name.split(".")[0], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def example(name):
    return load(EXAMPLES / f"{name}.py")


@pytest.fixture(scope="session")
def prices(tmp_path_factory):
    """`bs_native`, built by the command of the README."""
    folder = tmp_path_factory.mktemp("bs")
    command = [
        sys.executable, "-m", "aotarray.cli", "build", f"{EXAMPLES / 'black_scholes.py'}:price",
        "-s", "f64[n], f64[n], f64[n]", "-s", "f32[n], f32[n], f32[n]", "--name", "bs_native", "--out", str(folder),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True)
    return folder


CHECK = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
import bs_native
random = np.random.default_rng(0)
s, k, t = random.uniform(50, 150, 1001), random.uniform(50, 150, 1001), random.uniform(0.1, 2, 1001)
call, put = bs_native.price(s, k, t)
loaded = sorted(m for m in sys.modules if m.split(".")[0] in ("numba", "llvmlite", "aotarray"))
np.save({result!r}, np.stack([call, put]))
print(bs_native.__variant__, loaded)
"""


def pythons():
    """Every CPython 3.11 to 3.13 of this machine."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in (11, 12, 13):
        candidates = [shutil.which(f"python3.{minor}"), *sorted(map(str, pyenv.glob(f"3.{minor}.*/bin/python3")))]
        for candidate in filter(None, candidates):
            answer = subprocess.run(
                [candidate, "-c", "import sys, venv, ensurepip; print(sys.version_info[:2], sys.implementation.name)"],
                capture_output=True, text=True,
            )  # fmt: skip
            if answer.stdout.strip() == f"(3, {minor}) cpython":
                found[minor] = candidate
                break
    return found


def environment(folder, python):
    """A virtual environment with NumPy alone."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True, capture_output=True)
    own = folder / "bin" / "python"
    installed = subprocess.run([own, "-m", "pip", "install", "-q", "numpy"], capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"NumPy cannot be installed for {python}: {installed.stderr.strip()[-200:]}")
    return own


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_module_runs_with_numpy_alone(prices, tmp_path, minor):
    python = pythons().get(minor)
    if python is None:
        pytest.skip(f"no CPython 3.{minor} on this machine")
    own = environment(tmp_path / "env", python)
    result = tmp_path / "result.npy"
    code = CHECK.format(folder=str(prices), result=str(result))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "AOTARRAY"))}
    answer = subprocess.run([own, "-c", code], capture_output=True, text=True, env=clean)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip().endswith("[]")
    check_prices(np.load(result))


def check_prices(found):
    random = np.random.default_rng(0)
    s, k, t = random.uniform(50, 150, 1001), random.uniform(50, 150, 1001), random.uniform(0.1, 2, 1001)
    np.testing.assert_allclose(found, example("black_scholes").price(s, k, t), rtol=1e-11, atol=1e-11)


def levels():
    from aotarray import compiler

    known = ("v2", "v3", "v4")
    return known[: known.index(compiler.host_level()) + 1]


@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
def test_variants_agree(prices, tmp_path, level):
    if level not in levels():
        pytest.skip(f"this machine has no x86-64-{level}")
    result = tmp_path / "result.npy"
    code = CHECK.format(folder=str(prices), result=str(result))
    env = dict(os.environ, AOTARRAY_CPU=f"x86-64-{level}")
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(f"x86-64-{level} ")
    check_prices(np.load(result))


def test_unknown_variant_is_refused(prices):
    env = dict(os.environ, AOTARRAY_CPU="x86-64-v9")
    code = f"import sys; sys.path.insert(0, {str(prices)!r}); import bs_native"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert answer.returncode != 0
    assert "ImportError" in answer.stderr and "x86-64-v9" in answer.stderr


def test_dynamic_dependencies_are_the_c_librarys(prices):
    dynamic = read_dynamic(next(prices.glob("*.so")))
    assert all(re.match(r"lib(c|m|pthread|dl)\.so|ld-linux", name) for name in dynamic.needed), dynamic.needed
    assert dynamic.exported == ("PyInit_bs_native",) or list(dynamic.exported) == ["PyInit_bs_native"]


def test_files_beside_the_module(prices):
    names = sorted(p.name for p in prices.iterdir())
    assert names == ["bs_native.abi3.so", "bs_native.json", "bs_native.py.txt", "bs_native.pyi"]
    manifest = json.loads((prices / "bs_native.json").read_text())
    assert manifest["functions"] == {"price": [SIGNATURE, SIGNATURE.replace("64", "32")]}
    assert "black_scholes.py:" in (prices / "bs_native.py.txt").read_text()
    compile((prices / "bs_native.pyi").read_text(), "bs_native.pyi", "exec")


def test_versions_chosen_by_dtype(prices):
    module = load(prices / "bs_native.abi3.so")
    for dtype in (np.float64, np.float32):
        call, put = module.price(*np.full((3, 5), 1.5, dtype))
        assert call.dtype == put.dtype == dtype
    both = f"it takes: {SIGNATURE} or {SIGNATURE.replace('64', '32')}"
    with pytest.raises(TypeError, match=re.escape(both)):
        module.price(np.ones(3, np.int32), np.ones(3), np.ones(3))
    with pytest.raises(TypeError, match="has no version for"):
        module.price(np.ones((3, 3)), np.ones(3), np.ones(3))


def test_sizes_that_differ_are_named(prices):
    module = load(prices / "bs_native.abi3.so")
    with pytest.raises(ValueError, match=r"size n is 3 .*has size 4"):
        module.price(np.ones(3), np.ones(4), np.ones(3))


def test_wrong_calls_in_pythons_words(prices):
    module = load(prices / "bs_native.abi3.so")
    x = np.ones(3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 't'"):
        module.price(x, x)
    with pytest.raises(TypeError, match="takes 3 positional arguments but 4 were given"):
        module.price(x, x, x, x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'q'"):
        module.price(x, x, q=x)
    with pytest.raises(TypeError, match="multiple values for argument 's'"):
        module.price(x, x, x, s=x)
    call, _ = module.price(t=x, s=x, k=x)
    assert call.shape == (3,)


@pytest.mark.parametrize(("bad", "text"), [
    ([1.0, 2.0], "'s'.*list"), ("abc", "'s'.*str"), (None, "'s'"), (np.array(["a"]), "'s'"),
    (np.array([1, 2], object), "'s'.*object"), (np.array(["2020-01-01"], "M8[D]"), "'s'.*datetime"),
    (np.ones(2, ">f8"), "'s'.*big-endian"),
])  # fmt: skip
def test_bad_arguments_are_named(prices, bad, text):
    module = load(prices / "bs_native.abi3.so")
    with pytest.raises(TypeError, match=text):
        module.price(bad, np.ones(2), np.ones(2))


def test_layouts(prices):
    module = load(prices / "bs_native.abi3.so")
    rng = np.random.default_rng(1)
    s, k, t = rng.uniform(1, 2, (3, 60))
    expected = module.price(s[::3].copy(), k[::-1][::3].copy(), t[:20].copy())
    found = module.price(s[::3], k[::-1][::3], t[:20])
    np.testing.assert_array_equal(found, expected)
    raw = np.zeros(20 * 8 + 1, np.uint8)
    misaligned = raw[1:].view(np.float64)
    misaligned[:] = t[:20]
    np.testing.assert_array_equal(module.price(s[::3], k[::-1][::3], misaligned), expected)
    assert module.price(s[:0], k[:0], t[:0])[0].shape == (0,)


def test_out(prices):
    module = load(prices / "bs_native.abi3.so")
    s, k, t = np.random.default_rng(1).uniform(1, 2, (3, 50))
    expected = module.price(s, k, t)
    call, put = np.empty(50), np.empty(100)[::2]
    result = module.price(s, k, t, out=(call, put))
    assert result[0] is call and result[1] is put
    np.testing.assert_array_equal((call, put), expected)
    np.testing.assert_array_equal(module.price(s, k, t, out=(s, k)), expected)
    with pytest.raises(ValueError, match=r"out\[0\] is float64\[49\]; the result is float64 of shape \(50,\)"):
        module.price(t, t, t, out=(np.empty(49), np.empty(50)))


def test_trees_scalars_and_fixed_sizes(tmp_path):
    def step(state, dt, weights=("a", 1.0)):
        x, v = state["x"], state["v"]
        return {"x": x + v * dt, "v": (v, x.sum(axis=0))}, [x.shape[0] * 2]

    built = aotarray.build(step, '{"x": f32[n, 3], "v": f32[n, 3]}, float', name="trees_aot", out=tmp_path)
    module = load(built.path)
    x, v = np.random.default_rng(0).normal(size=(2, 7, 3)).astype(np.float32)
    found = module.step({"x": x, "v": v}, 0.5)
    expected = step({"x": x, "v": v}, 0.5)
    np.testing.assert_array_equal(found[0]["x"], expected[0]["x"])
    np.testing.assert_allclose(found[0]["v"][1], expected[0]["v"][1], rtol=1e-6)
    assert isinstance(found[1], list) and found[1][0] == 14
    assert found[0]["x"].dtype == np.float32
    with pytest.raises(ValueError, match=r"must have size 3, not 4"):
        module.step({"x": np.ones((7, 4), "f4"), "v": np.ones((7, 4), "f4")}, 0.5)


def test_related_sizes_are_checked(tmp_path):
    built = aotarray.build(lambda x, y: x[1:] + y, "f64[n], f64[n - 1]", name="related_aot", out=tmp_path)
    module = load(built.path)
    function = module.function
    np.testing.assert_array_equal(function(np.arange(4.0), np.ones(3)), np.arange(4.0)[1:] + 1)
    with pytest.raises(ValueError, match=r"size n - 1 is 3"):
        function(np.arange(4.0), np.ones(4))


def test_nothing_stays_when_the_folder_cannot_be_written(tmp_path):
    target = tmp_path / "file"
    target.write_text("")
    with pytest.raises(LinkError, match="file"):
        aotarray.build(np.sin, "f64[n]", name="sine_aot", out=target / "inner")
    assert target.read_text() == ""


def test_no_linker_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(LinkError, match="install"):
        aotarray.build(lambda x: x + 1, "f64[n]", name="unlinked_aot", out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True


@pytest.mark.parametrize(("spec", "text"), [
    ("f64[n", "expected"), ("f65[n]", "f64"), ("f64[n], f64[n], f64[n]", "too many"), ("", "missing"),
    ("f64[2*n]", "stand alone"),
])  # fmt: skip
def test_bad_specs(tmp_path, spec, text):
    with pytest.raises(SpecError, match=text):
        aotarray.build(lambda x: x + 1, spec, name="bad_aot", out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_same_input_same_source(tmp_path):
    texts = []
    for seed in ("0", "1"):
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]); import black_scholes, aotarray; "
            "print(aotarray.lower(black_scholes.price, 'f64[n], f64[n], f64[n]').source)"
        )
        env = dict(os.environ, PYTHONHASHSEED=seed)
        command = [sys.executable, "-c", code, str(EXAMPLES)]
        texts.append(subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout)
    assert texts[0] == texts[1]


def test_several_functions(tmp_path):
    @aotarray.export("f64[n]")
    def twice(x):
        return x * 2

    def add(x, y):
        return x + y

    module = load(aotarray.build([twice, (add, ["f64[n], f64[n]"])], name="several_aot", out=tmp_path).path)
    x = np.arange(3.0)
    np.testing.assert_array_equal(module.add(module.twice(x), x), 3 * x)
    with pytest.raises(SpecError, match="two functions are called 'function': name them apart"):
        aotarray.build([(lambda x: x, ["f64[n]"]), (lambda x: -x, ["f64[n]"])], name="twins_aot", out=tmp_path)


def test_docstrings_say_what_is_compiled(tmp_path):
    def shifted(x, y):
        """x without its ends, plus y."""
        return x[1:-1] + y

    def fill(A):
        A[...] = 1

    work = [(shifted, ["f64[n], f64[n - 2]", "f32[n], f32[n - 2]"]), (fill, ["inout f64[n]"])]
    module = load(aotarray.build(work, name="documented", out=tmp_path, cpu="native").path)
    versions = "    shifted(x: f64[n], y: f64[n - 2])\n    shifted(x: f32[n], y: f32[n - 2])"
    assert module.shifted.__doc__ == f"x without its ends, plus y.\n\nCompiled for:\n{versions}"
    assert module.fill.__doc__ == "Compiled for:\n    fill(A: inout f64[n])"
    head = "Functions compiled ahead of time by aotarray.\n\n"
    assert module.__doc__ == f"{head}{versions}\n    fill(A: inout f64[n])"
    message = r"size n - 2 is 3 \(n: argument 'x', axis 0\) but argument 'y', axis 0 has size 7"
    with pytest.raises(ValueError, match=message):
        module.shifted(np.zeros(5), np.zeros(7))


@pytest.mark.parametrize(
    ("place", "reason"), [("file", "is a file, not a folder"), ("file/inside", "cannot be written into")]
)
def test_folders_that_cannot_be_written_into(tmp_path, place, reason):
    (tmp_path / "file").write_text("")
    with pytest.raises(LinkError, match=rf"{place} {reason}.*; choose another folder with --out"):
        aotarray.build(lambda x: x + 1, "f64[n]", name="lost", out=tmp_path / place, cpu="native")
