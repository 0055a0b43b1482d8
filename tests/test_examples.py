"""The examples: right by an independent reference, plain NumPy, and the same when compiled."""

import importlib.util
import subprocess
import sys
from math import erfc, sqrt
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_examples():
    assert {"article", "black_scholes", "haversine", "hillshade", "layer_norm", "softmax"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_needs_only_numpy(name):
    code = (
        "import sys, runpy; before = set(sys.modules)\n"
        f"runpy.run_path({str(EXAMPLES / (name + '.py'))!r}, run_name='example')\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(tops - set(sys.stdlib_module_names)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "['numpy']"


@pytest.mark.parametrize("name", NAMES)
def test_runs_compiled(name, tmp_path):
    picture = tmp_path / "picture.png"
    arguments = [str(picture)] if name == "hillshade" else []
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    if name == "hillshade":
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_normal_cdf():
    x = np.linspace(-10, 10, 20_001)
    expected = [0.5 * erfc(-v / sqrt(2)) for v in x]
    np.testing.assert_allclose(load("black_scholes").normal_cdf(x), expected, rtol=0, atol=2e-15)


def test_put_call_parity():
    example = load("black_scholes")
    s, k, t = np.array([100.0, 80.0]), np.array([100.0, 120.0]), np.array([1.0, 0.25])
    call, put = example.price(s, k, t)
    np.testing.assert_allclose(call - put, s - k * np.exp(-example.RATE * t), rtol=1e-13)
    np.testing.assert_allclose(call[0], 12.82158, rtol=1e-6)


def test_softmax():
    y = load("softmax").softmax(np.array([[0.0, np.log(3.0)], [1e4, 1e4]]))
    np.testing.assert_allclose(y, [[0.25, 0.75], [0.5, 0.5]], rtol=1e-15)


def test_layer_norm():
    x = np.random.default_rng(1).normal(5, 3, (4, 100))
    y = load("layer_norm").layer_norm(x, np.full(100, 2.0), np.full(100, 1.0))
    np.testing.assert_allclose(y.mean(axis=-1), 1.0, atol=1e-12)
    np.testing.assert_allclose(y.std(axis=-1), 2.0, rtol=1e-5)


def test_haversine():
    quarter = load("haversine").haversine(0.0, 0.0, np.array([90.0, 0.0]), np.array([0.0, 90.0]))
    np.testing.assert_allclose(quarter, 6371.0088 * np.pi / 2, rtol=1e-15)


def test_laplacian():
    y, x = np.mgrid[0:5, 0:7]
    assert np.array_equal(load("laplacian").laplacian(0.25 * (x * x + y * y)), np.ones((3, 5)))


def test_hillshade():
    example = load("hillshade")
    flat = example.hillshade(np.zeros((4, 5)), 30.0, 30.0)
    np.testing.assert_allclose(flat, np.sin(example.ALTITUDE))
    rows, columns = np.mgrid[0:6, 0:6].astype(float)
    # The light is in the north-west: a plane that falls to the north-west faces it, at 45 degrees.
    facing = example.hillshade((rows + columns) / np.sqrt(2), 1.0, 1.0)[1:-1, 1:-1]
    np.testing.assert_allclose(facing, 1.0)


def test_hillshade_data():
    elevation, dx, dy = load("hillshade").load()
    assert elevation.ndim == 2
    assert 70 < dx < dy < 95
