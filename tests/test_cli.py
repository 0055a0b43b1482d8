"""The command line: what it loads, says and returns. `fake_api` stands in for the compiler where the test
is about the command; tests without it go all the way."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from click import ClickException
from click.testing import CliRunner

import aotarray
from aotarray import building, errors, signature
from aotarray.cli import demo, doctor, loading, main, options
from aotarray.cli.demo_process import FOREIGN

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
BLACK_SCHOLES = f"{EXAMPLES / 'black_scholes.py'}:price"


@dataclass
class Calls:
    """What the commands asked of the fake api."""

    builds: list
    error: Exception | None = None


@pytest.fixture
def fake_api(monkeypatch):
    calls = Calls([])
    api = ModuleType("aotarray.api")

    def build(work, *, name, out, target, cpu, progress):
        if calls.error:
            raise calls.error
        calls.builds.append(
            ([(function.__name__, specs) for function, specs in work], name, str(out), target, cpu)
        )
        progress("working")
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"{name}.abi3.so"
        path.write_bytes(b"x" * 2048)
        return SimpleNamespace(path=path, files=[path])

    def lower(function, spec):
        text = f"{function.__name__}({spec})"
        return SimpleNamespace(
            graph=f"graph {text}", fused=f"fused {text}", source=f"source {text}", llvm_ir="ir", asm="asm"
        )

    info = SimpleNamespace(folder=Path("/somewhere"), count=3, bytes=5000, limit=1 << 30, reason="")
    api.build, api.lower = build, lower
    api.exports = lambda function: getattr(function, "marked", ())
    api.cache = lambda: SimpleNamespace(info=lambda: info, clear=lambda: 3)
    api.is_module_name, api.function_name = building.is_module_name, signature.function_name
    api.find_compiler = lambda: SimpleNamespace(command=("/usr/bin/cc",), version="cc 12\nCopyright")
    api.get_num_threads = lambda: 2
    monkeypatch.setitem(sys.modules, "aotarray.api", api)
    monkeypatch.setattr("aotarray.api", api, raising=False)
    monkeypatch.setattr("aotarray.get_num_threads", api.get_num_threads, raising=False)
    return calls


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working directory with a few modules."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes.py").write_text(
        "import sibling\n"
        "def area(x):\n    return x * 2\n"
        "def perimeter(x):\n    return x + x\n"
        "area.marked = ('f64[n]', 'f32[n]')\n"
        "number = 3\n"
        "class Box:\n    def volume(x):\n        return x\n"
    )
    (tmp_path / "sibling.py").write_text("def helper(x):\n    return x\n")
    (tmp_path / "broken.py").write_text("def f(x):\n    return x\n\nvalue = 1 / 0\n")
    (tmp_path / "bad_syntax.py").write_text("def f(x)\n    return x\n")
    (tmp_path / "needs.py").write_text("import not_installed_anywhere\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "inner.py").write_text("from . import __name__ as parent\ndef f(x):\n    return x\n")
    yield tmp_path
    for name in ("shapes", "sibling", "broken", "bad_syntax", "needs", "pkg", "pkg.inner"):
        sys.modules.pop(name, None)


def run(*args):
    result = CliRunner().invoke(main, [str(arg) for arg in args], prog_name="aotarray")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_process(*args, **kwargs):
    command = [sys.executable, "-m", "aotarray.cli", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)


# -- help and usage -----------------------------------------------------------------------------------
def test_help_names_every_command():
    result = run("--help")
    assert result.exit_code == 0
    for command in ("build", "show", "demo", "doctor", "cache"):
        assert f"  {command} " in result.output


@pytest.mark.parametrize("command", ["build", "show", "cache"])
def test_help_has_examples(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"  aotarray {command} " in result.output


@pytest.mark.parametrize("args", [[], ["build"], ["show"], ["build", "--nonsense"], ["nonsense"]])
def test_wrong_usage_exits_2(args):
    assert run(*args).exit_code == 2


def test_version():
    import aotarray

    assert run("--version").output == f"aotarray, version {aotarray.__version__}\n"


def test_help_loads_no_compiler_and_no_numpy():
    code = (
        "import sys; from aotarray.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'numba', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")


# -- loading ------------------------------------------------------------------------------------------
def test_loads_by_file_by_name_and_by_attribute_path(project):
    before = list(sys.path)
    assert loading.load("shapes.py:area").value(2) == 4
    assert loading.load(f"{project}/shapes.py:perimeter").value(2) == 4
    assert loading.load("./shapes:area").value(2) == 4
    assert loading.load("shapes:Box.volume").value(2) == 2
    assert loading.load("pkg.inner:f").value(2) == 2
    assert loading.load("shapes").attribute == ""
    assert sys.path == before


def test_a_file_does_not_hide_a_module_of_its_name(project):
    (project / "numpy.py").write_text("def f(x):\n    return x\n")
    target = loading.load("numpy.py:f")
    assert loading.short_name(target.module) == "numpy"
    assert sys.modules["numpy"] is np


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            "shapes.py:aera",
            "shapes.py has no function 'aera'; did you mean 'area'?\n  It has: area, perimeter",
        ),
        (
            "shapes:Box.wolume",
            "shapes:Box has no function 'wolume'; did you mean 'volume'?\n  It has: volume",
        ),
        ("shapes:number", "shapes:number is an int, not a function"),
        ("shapes.py:", "no function after the colon in 'shapes.py:'; write shapes.py:NAME"),
        (":area", "no module before the colon in ':area'; write MODULE:NAME or FILE.py:NAME"),
        ("shaped.py:area", "there is no file shaped.py; did you mean 'shapes.py'?"),
        ("nowhere/x.py:f", "there is no file nowhere/x.py"),
        ("shaped:area", "there is no module named 'shaped' on Python's path or in"),
        ("shaped:area", "; did you mean 'shapes'?"),
        ("inner:f", "there is no module named 'inner'; did you mean the file pkg/inner.py?"),
        ("shapes.deep:f", "there is no module named 'shapes.deep'"),
        ("broken.py:f", "broken.py, line 4: value = 1 / 0\n  ZeroDivisionError: division by zero"),
        ("broken:f", "broken.py, line 4: value = 1 / 0\n  ZeroDivisionError: division by zero"),
        ("bad_syntax.py:f", "bad_syntax.py, line 1: def f(x)\n  SyntaxError: expected ':'"),
        (
            "needs:f",
            "needs.py, line 1: import not_installed_anywhere\n  ModuleNotFoundError: No module named",
        ),
        ("pkg/inner.py:f", "give its dotted name, such as package.module:function"),
    ],
)
def test_loading_errors(project, fake_api, reference, message):
    result = run("build", reference, "-s", "f64[n]")
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (project / "build").exists()


# -- build --------------------------------------------------------------------------------------------
def test_build_passes_everything_on(project, fake_api):
    specs = ["-s", "f64[n]", "-s", "f32[n]"]
    result = run("build", "shapes.py:area", *specs, "--name", "fast", "--out", "o", "--cpu", "native")
    assert result.exit_code == 0
    assert fake_api.builds == [([("area", ["f64[n]", "f32[n]"])], "fast", "o", "cpu", "native")]
    assert result.stdout == (
        "o/fast.abi3.so  2.0 KB\n\nPut fast.abi3.so on Python's path, import fast, and call fast.area.\n"
    )
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["shapes.py:perimeter", "-s", "A"], [("perimeter", ["A"])]),
        (["-s", "A", "shapes.py:perimeter"], [("perimeter", ["A"])]),
        (["-sA", "shapes.py:perimeter", "sibling.py:helper"], [("perimeter", ["A"]), ("helper", ["A"])]),
        (["shapes.py:perimeter", "-s", "A", "sibling.py:helper", "--spec=B", "--spec", "C"],
         [("perimeter", ["A"]), ("helper", ["B", "C"])]),
        (["shapes.py:perimeter", "--name", "both", "sibling.py:helper", "-s", "A"],
         [("perimeter", ["A"]), ("helper", ["A"])]),
        (["shapes.py:area"], [("area", ["f64[n]", "f32[n]"])]),
        (["shapes.py"], [("area", ["f64[n]", "f32[n]"])]),
        (["shapes.py", "sibling.py:helper", "-s", "B"], [("area", ["f64[n]", "f32[n]"]), ("helper", ["B"])]),
    ],
)  # fmt: skip
def test_a_spec_belongs_to_the_functions_before_it(project, fake_api, args, expected):
    result = run("build", *args)
    assert result.exit_code == 0, result.output
    assert fake_api.builds[0][0] == expected


def test_default_name_is_the_modules_last_name(project, fake_api):
    run("build", "shapes.py:area")
    run("build", "pkg.inner:f", "-s", "f64[n]")
    assert [build[1] for build in fake_api.builds] == ["shapes_aot", "inner_aot"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (
            ["shapes.py:perimeter"],
            1,
            'no signature for perimeter: add -s "f64[n]" after it, or mark the function',
        ),
        (
            ["sibling.py"],
            1,
            "sibling marks no function with @aotarray.export; name one, as in sibling:NAME, with",
        ),
        (
            ["shapes.py", "-s", "f64[n]"],
            1,
            'which function is "f64[n]" for? Write shapes:NAME\n  It has: area,',
        ),
        (["shapes.py:area", "--name", "not-a-name"], 2, "'not-a-name' cannot be imported"),
        (["shapes.py:area", "--name", "class"], 2, "'class' cannot be imported"),
        (["shapes.py:area", "--name", "numpy"], 2, "'numpy' cannot be imported"),
    ],
)
def test_build_errors(project, fake_api, args, code, message):
    result = run("build", *args)
    assert (result.exit_code, message in result.output) == (code, True), result.output


def test_errors_have_no_traceback_without_debug(project, fake_api):
    fake_api.error = errors.SpecError("expected ']'\n  f64[n\n       ^")
    result = run("build", "shapes.py:area")
    assert result.exit_code == 1
    assert result.stderr == "Error: expected ']'\n  f64[n\n       ^\n"
    for args in (["build", "--debug", "shapes.py:area"], ["--debug", "build", "shapes.py:area"]):
        with pytest.raises(errors.SpecError):
            run(*args)


def test_other_errors_name_the_users_line(project, fake_api):
    (project / "raises.py").write_text("def f(x):\n    raise ValueError('odd')\n")
    try:
        loading.load("raises.py:f").value(1)
    except ValueError as error:
        fake_api.error = error
    result = run("build", "raises.py:f", "-s", "f64[n]")
    assert result.exit_code == 1
    assert f"ValueError: odd\n  {project / 'raises.py'}, line 2: raise ValueError('odd')\n" in result.stderr


def test_interrupt_exits_130(project, fake_api):
    fake_api.error = KeyboardInterrupt()
    result = run("build", "shapes.py:area")
    assert (result.exit_code, result.stderr) == (130, "\ninterrupted\n")


def test_interrupt_of_a_process(project):
    (project / "slow.py").write_text("print('started', flush=True)\nimport time\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "aotarray.cli", "build", "slow.py:f", "-s", "f64[n]"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # The tests may run in the background, where shells have SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout.readline() == "started\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr == "\ninterrupted\n"


def test_progress_only_on_a_terminal(capsys, monkeypatch):
    with options.progress() as show:
        show("one")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with options.progress() as show:
        show("one")
    assert "one ..." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("count", "text"),
    [(3, "3 bytes"), (2048, "2.0 KB"), (61 * 1024, "61 KB"), (1 << 30, "1.0 GB"), (1 << 41, "2048 GB")],
)
def test_size_text(count, text):
    assert options.size_text(count) == text


# -- show ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("stage", "text"),
    [("graph", "graph area(f64[n])"), ("fused", "fused area(f64[n])"), ("source", "source area(f64[n])"),
     ("llvm", "ir"), ("asm", "asm")],
)  # fmt: skip
def test_show_prints_the_stage(project, fake_api, stage, text):
    result = run("show", "shapes.py:area", "-s", "f64[n]", "--stage", stage)
    assert (result.exit_code, result.output) == (0, f"{text}\n")


def test_show_prints_every_exported_signature(project, fake_api):
    assert run("show", "shapes.py:area").output == "source area(f64[n])\nsource area(f32[n])\n"


def test_show_errors(project, fake_api):
    assert 'no signature for perimeter: add -s "f64[n]"' in run("show", "shapes.py:perimeter").output
    assert "which function of shapes.py? Write shapes.py:NAME" in run("show", "shapes.py").output
    assert run("show", "shapes.py:area", "--stage", "nothing").exit_code == 2


# -- cache and doctor ---------------------------------------------------------------------------------
def test_cache_shows_and_clears(fake_api):
    assert run("cache").output == "folder   /somewhere\nentries  3\nsize     4.9 KB of at most 1.0 GB\n"
    assert run("cache", "clear").output == "deleted 3 entries\n"


def test_doctor_reports(fake_api):
    result = run("doctor")
    for topic in (
        "aotarray",
        "numpy",
        "numba",
        "llvmlite",
        "linker",
        "CPU",
        "threads",
        "cache",
        "GPU",
        "[test]",
    ):
        assert f"\n{topic} " in f"\n{result.output}"
    assert "/somewhere: 3 entries, 4.9 KB" in result.output
    assert "/usr/bin/cc (cc 12)\n" in result.output


def test_doctor_says_what_to_install_without_a_linker(fake_api, monkeypatch):
    def missing():
        raise errors.LinkError("no C compiler; install one:\n  apt install gcc")

    monkeypatch.setattr(sys.modules["aotarray.api"], "find_compiler", missing)
    result = run("doctor")
    assert result.exit_code == 1
    assert "-> no C compiler; install one:\n                apt install gcc\n" in result.output
    assert "Not ready: see the arrows above." in result.output


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ("fpu sse2", "v1"),
        ("cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3", "v2"),
        ("cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave", "v3"),
        ("cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx512f avx512bw avx512cd avx512dq avx512vl", "v2"),
    ],
)
def test_cpu_level(flags, level):
    assert doctor.cpu_level(set(flags.split())) == level


def test_gpu_without_a_driver(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert doctor.gpu() == "no NVIDIA driver (libcuda.so.1) found"


# -- demo ---------------------------------------------------------------------------------------------
def fake_module(folder, source):
    """A plain Python module in place of the built one."""
    (folder / "aotarray_demo.py").write_text(source)


def test_demo_process_compares_with_numpy(tmp_path):
    example = (EXAMPLES / "black_scholes.py").read_text()
    fake_module(tmp_path, example)
    report = demo.run_beside_numpy(tmp_path, 1000)
    assert (report["difference"], report["loaded"]) == (0.0, [])
    assert report["largest"] > 50
    fake_module(tmp_path, example.replace("RATE = 0.02", "RATE = 0.03") + "\nimport numba\n")
    report = demo.run_beside_numpy(tmp_path, 1000)
    assert report["difference"] > 0.1
    assert report["loaded"] == ["llvmlite", "numba"]


def test_demo_process_that_fails_is_reported(tmp_path):
    fake_module(tmp_path, "raise ImportError('no such variant')\n")
    with pytest.raises(ClickException, match=r"the new process failed:\n(.|\n)*ImportError: no such variant"):
        demo.run_beside_numpy(tmp_path, 10)


def test_demo_says_what_it_found(tmp_path, fake_api, monkeypatch):
    report = {"numpy_ms": 80.0, "compiled_ms": 4.0, "difference": 1e-14, "largest": 99.6, "loaded": []}
    monkeypatch.setattr(demo, "run_beside_numpy", lambda folder, count: report)
    result = run("demo", "--out", tmp_path)
    assert result.exit_code == 0
    assert "  compiled      4.00 ms   (20.0 times as fast)\n" in result.output
    assert "  largest difference 1.0e-14, in prices up to 100\n" in result.output
    assert str(tmp_path / "aotarray_demo.abi3.so") in result.output
    report["difference"] = float("nan")
    assert run("demo", "--out", tmp_path).exit_code == 1


# -- all the way --------------------------------------------------------------------------------------
def test_build_and_import(tmp_path):
    done = run_process(
        "build", BLACK_SCHOLES, "-s", "f64[n], f64[n], f64[n]", "--name", "bs", "--out", tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    code = (
        f"import json, sys; sys.path.insert(0, {str(tmp_path)!r}); import numpy as np, bs\n"
        "x = np.full(3, 100.0)\n"
        "call, put = bs.price(x, x, np.ones(3))\n"
        f"print(json.dumps([call.tolist(), [m for m in {FOREIGN!r} if m in sys.modules]]))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    call, loaded = json.loads(result.stdout)
    np.testing.assert_allclose(call, 12.82158, rtol=1e-6)
    assert loaded == []


def test_demo(tmp_path):
    done = run_process("demo", "--out", tmp_path, "--options", "10000")
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'aotarray_demo.abi3.so'}" in done.stdout
    assert "numba not loaded, llvmlite not loaded, aotarray not loaded" in done.stdout


def test_demo_functions_are_the_example():
    def body(path):
        return path.read_text().partition("import numpy")[2].partition("\n\ndef main")[0].rstrip()

    assert body(Path(loading.__file__).with_name("demo_functions.py")) == body(EXAMPLES / "black_scholes.py")


@pytest.mark.parametrize("stage", ["graph", "fused", "source", "llvm", "asm"])
def test_show_all_the_way(stage):
    done = run_process("show", BLACK_SCHOLES, "-s", "f64[n], f64[n], f64[n]", "--stage", stage)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_bad_spec_all_the_way(tmp_path):
    done = run_process("build", BLACK_SCHOLES, "-s", "f64[n], f65[n], f64[n]", "--out", tmp_path / "o")
    assert done.returncode == 1
    assert "unknown dtype 'f65'; did you mean f64?\n  f64[n], f65[n], f64[n]\n          ^" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "o").exists()


def test_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "inside"  # nobody can make it, root neither
    done = run_process("build", BLACK_SCHOLES, "-s", "f64[n], f64[n], f64[n]", "--out", folder)
    assert done.returncode == 1
    assert str(folder) in done.stderr
    assert "Traceback" not in done.stderr


def test_out_that_is_a_file(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = run_process("build", BLACK_SCHOLES, "-s", "f64[n], f64[n], f64[n]", "--out", file)
    assert done.returncode == 2
    assert "is a file" in done.stderr


def test_cache_all_the_way(tmp_path):
    environment = {**os.environ, "AOTARRAY_CACHE_DIR": str(tmp_path / "cache")}
    done = run_process("cache", env=environment)
    assert done.returncode == 0, done.stderr
    assert f"folder   {tmp_path / 'cache'}\nentries  0\n" in done.stdout
    assert run_process("cache", "clear", env=environment).stdout == "deleted 0 entries\n"
    off = run_process("cache", env={**os.environ, "AOTARRAY_CACHE_DIR": "off"})
    assert off.stdout == "The cache is off: AOTARRAY_CACHE_DIR switches it off\n"


def test_build_says_the_names_that_the_module_has(tmp_path):
    (tmp_path / "short.py").write_text(
        "import functools\ndouble = lambda x: x * 2\ndef scale(x, k): return x * k\n"
        "half = functools.partial(scale, k=0.5)\n"
    )
    for name, called in (("double", "function"), ("half", "scale")):
        done = run_process("build", f"short.py:{name}", "-s", "f64[n]", "--name", f"of_{name}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith(f"and call of_{name}.{called}.\n")


def test_a_reader_that_stops_is_no_error():
    process = subprocess.Popen(
        [sys.executable, "-m", "aotarray.cli", "show", BLACK_SCHOLES, "-s", "f64[n], f64[n], f64[n]"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait(timeout=60)


def test_source_folder_without_a_launcher_says_so(tmp_path):
    source = Path(aotarray.__file__).parent
    shutil.copytree(source, tmp_path / "aotarray", ignore=shutil.ignore_patterns("_launcher*.so", "__pycache__"))
    folders = [str(tmp_path), str(Path(np.__file__).parents[1])]
    code = f"import sys; sys.path[:0] = {folders}; import aotarray; aotarray.jit"
    # -S leaves out the finder of an editable install.
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "has no built launcher: this is aotarray's source" in done.stderr


@pytest.mark.parametrize(
    ("level", "code", "text"),
    [("x86-64-v2", 0, "AOTARRAY_CPU asks for x86-64-v2"), ("fast", 1, "-> AOTARRAY_CPU=fast is not one of")],
)
def test_doctor_heeds_the_level_asked_for(tmp_path, level, code, text):
    done = run_process(
        "doctor", env={**os.environ, "AOTARRAY_CACHE_DIR": str(tmp_path), "AOTARRAY_CPU": level}
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert text in done.stdout


def test_doctor_all_the_way(tmp_path):
    done = run_process("doctor", env={**os.environ, "AOTARRAY_CACHE_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Ready: jit and build for the CPU work here.\n")
