"""The cache gives back exactly what was put or nothing, whatever happens to its folder."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import stat
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from aotarray.compile import cache as module
from aotarray.compile.cache import Cache
from aotarray.errors import CacheError

KEY = Cache.key("k")
not_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AOTARRAY_CACHE_DIR", "AOTARRAY_CACHE_SIZE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "_warnings_given", set())


def temporary_files(folder: Path) -> list[Path]:
    return [path for path in folder.glob(".aotarray-*") if path.name != ".aotarray-pruned"]


def only_entry(folder: Path) -> Path:
    (path,) = folder.glob("*.program")
    return path


def test_round_trip_and_kinds(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c")
    assert cache.get(KEY) is None
    assert cache.put(KEY, b"program")
    assert cache.put(KEY, b"", kind="scalar")
    assert cache.get(KEY) == b"program"
    assert cache.get(KEY, kind="scalar") == b""
    assert Cache(tmp_path / "c").get(KEY) == b"program"
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700
    assert stat.S_IMODE(only_entry(tmp_path / "c").stat().st_mode) == 0o600
    info = cache.info()
    assert (info.count, info.folder, info.limit) == (2, tmp_path / "c", 1 << 30)
    assert cache.clear() == 2
    assert cache.info().count == 0


def test_keys_separate_their_parts() -> None:
    keys = [Cache.key(*parts) for parts in [(), ("ab", "c"), ("a", "bc"), ("abc",), (b"abc",), ("abc", "")]]
    assert len(set(keys)) == len(keys)
    assert Cache.key("a", b"b") == Cache.key("a", b"b")
    with pytest.raises(ValueError, match="SHA-256"):
        module._name("../x", "program")
    with pytest.raises(ValueError, match="kind"):
        module._name(KEY, "../x")


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Cache().folder == tmp_path / ".cache" / "aotarray"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert Cache().folder == tmp_path / ".cache" / "aotarray"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache().folder == tmp_path / "xdg" / "aotarray"
    monkeypatch.setenv("AOTARRAY_CACHE_DIR", str(tmp_path / "chosen"))
    assert Cache().folder == tmp_path / "chosen"


@pytest.mark.parametrize("value", ["", "off"])
def test_switched_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTARRAY_CACHE_DIR", value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache = Cache()
        assert not cache.put(KEY, b"x")
        assert cache.get(KEY) is None
        assert cache.clear() == 0
        cache.prune()
    assert "AOTARRAY_CACHE_DIR" in cache.info().reason


def test_every_truncation_and_bit_flip_is_noticed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"payload of an entry")
    path = only_entry(tmp_path)
    good = path.read_bytes()
    damaged = [good[:size] for size in range(len(good))] + [good + b"\0"]
    damaged += [good[:i] + bytes([good[i] ^ 1 << i % 8]) + good[i + 1 :] for i in range(len(good))]
    for blob in damaged:
        path.write_bytes(blob)
        path.chmod(0o600)
        assert cache.get(KEY) is None
        assert not path.exists()
    path.write_bytes(good)
    path.chmod(0o600)
    assert cache.get(KEY) == b"payload of an entry"


def test_an_entry_under_another_name_is_foreign(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"x")
    other = Cache.key("other")
    only_entry(tmp_path).rename(tmp_path / f"{other}.program")
    assert cache.get(other) is None


def test_links_fifos_and_writable_files_are_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c")
    cache.put(KEY, b"x")
    path = only_entry(tmp_path / "c")
    moved = tmp_path / "moved"
    path.rename(moved)
    path.symlink_to(moved)
    assert cache.get(KEY) is None
    assert not path.is_symlink()
    assert moved.exists()
    os.mkfifo(path)
    assert cache.get(KEY) is None
    moved.rename(path)
    path.chmod(0o666)
    assert cache.get(KEY) is None
    path.mkdir()
    assert cache.get(KEY) is None
    with pytest.warns(RuntimeWarning, match="could not be kept"):
        assert not cache.put(KEY, b"x")
    assert temporary_files(tmp_path / "c") == []


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(CacheError, match=rf"mode {mode:o}.*chmod 700 .*open.*AOTARRAY_CACHE_DIR"):
        Cache(folder)
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(CacheError, match="chmod 700"):
        Cache(link)


def test_a_folder_of_someone_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 12345)
    with pytest.raises(CacheError, match=rf"belongs to .*uid {uid}.*not to uid {uid + 12345}"):
        Cache(tmp_path)


def test_an_unusable_home_costs_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match=r"cannot be used \(Not a directory.*AOTARRAY_CACHE_DIR"):
        cache = Cache()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cache()
    assert not cache.put(KEY, b"x")
    assert cache.get(KEY) is None
    assert "Not a directory" in cache.info().reason
    (tmp_path / "aotarray").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.warns(RuntimeWarning, match="Not a directory"):
        assert Cache().folder is None


@not_root
def test_a_read_only_folder_still_gives(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"x")
    tmp_path.chmod(0o500)
    try:
        with pytest.warns(RuntimeWarning, match="Permission denied"):
            assert not cache.put(Cache.key("2"), b"x")
        assert cache.get(KEY) == b"x"
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 60:
            return real(fd, data[:20])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        assert not cache.put(KEY, bytes(500))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not cache.put(KEY, bytes(500))
    assert cache.get(KEY) is None
    assert list(tmp_path.iterdir()) == []


def _put_under_a_file_size_limit(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stored = Cache(folder).put(KEY, bytes(5000))
    sys.exit(0 if not stored and len(caught) == 1 and "too large" in str(caught[0].message) else 1)


def test_a_file_size_limit_fails_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_put_under_a_file_size_limit, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert temporary_files(tmp_path) == []


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(fd: int, data: bytes) -> int:
        raise KeyboardInterrupt

    cache = Cache(tmp_path)
    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.put(KEY, b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_vanished_folder_is_made_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c")
    (tmp_path / "c").rmdir()
    assert cache.get(KEY) is None
    assert cache.info().count == 0
    assert cache.put(KEY, b"x")
    assert cache.get(KEY) == b"x"


def test_pruning_keeps_what_was_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTARRAY_CACHE_SIZE", "100K")
    (tmp_path / "thesis.txt").write_text("not ours")
    cache = Cache(tmp_path)
    keys = [Cache.key(str(i)) for i in range(200)]
    now = time.time()
    for i, key in enumerate(keys):
        assert cache.put(key, bytes(1000))
        age = (len(keys) - i) * 86400.0
        path = tmp_path / f"{key}.program"
        if path.exists():
            os.utime(path, (now - age, now - age))
        if i == 60:
            assert cache.get(keys[0]) is not None
    cache.prune()
    info = cache.info()
    assert 60 << 10 < info.bytes <= info.limit
    assert cache.get(keys[-1]) is not None
    assert cache.get(keys[1]) is None
    assert (tmp_path / "thesis.txt").exists()
    cache.clear()
    assert (tmp_path / "thesis.txt").exists()


def test_use_counts_at_most_hourly(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"x")
    path = only_entry(tmp_path)
    recently, long_ago = time.time() - 600, time.time() - 86400
    os.utime(path, (recently, recently))
    cache.get(KEY)
    assert path.stat().st_mtime == pytest.approx(recently)
    os.utime(path, (long_ago, long_ago))
    cache.get(KEY)
    assert path.stat().st_mtime > recently


def test_many_short_processes_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that puts one entry prunes when nobody did for an hour."""
    monkeypatch.setenv("AOTARRAY_CACHE_SIZE", "64K")
    for i in range(40):
        Cache(tmp_path).put(Cache.key(str(i)), bytes(3000))
    assert Cache(tmp_path).info().bytes > 64 << 10
    marker = tmp_path / ".aotarray-pruned"
    os.utime(marker, (time.time() - 7200,) * 2)
    Cache(tmp_path).put(KEY, bytes(3000))
    assert Cache(tmp_path).info().bytes <= 64 << 10


def test_stale_temporary_files_go(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    stale, recent = tmp_path / ".aotarray-1-aa", tmp_path / ".aotarray-2-bb"
    for path, age in ((stale, 7200), (recent, 60)):
        path.write_bytes(b"")
        os.utime(path, (time.time() - age,) * 2)
    cache.prune()
    assert not stale.exists()
    assert recent.exists()


@pytest.mark.parametrize(
    ("text", "size"),
    [("1G", 1 << 30), ("1.5k", 1536), ("500 MB", 500 << 20), ("2TiB", 2 << 40), ("1000", 1000)],
)
def test_sizes(text: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTARRAY_CACHE_SIZE", text)
    assert Cache(tmp_path).limit == size


def test_bad_and_zero_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTARRAY_CACHE_SIZE", "lots")
    with pytest.raises(CacheError, match="AOTARRAY_CACHE_SIZE='lots'"):
        Cache(tmp_path)
    monkeypatch.setenv("AOTARRAY_CACHE_SIZE", "0")
    assert not Cache(tmp_path).put(KEY, b"x")
    monkeypatch.setenv("AOTARRAY_CACHE_SIZE", "100")
    assert not Cache(tmp_path).put(KEY, bytes(200))


def _payload(i: int) -> bytes:
    return str(i).encode() * (100 + i * 37 % 900)


def _fill(folder: Path, seed: int) -> None:
    cache = Cache(folder)
    for step in range(600):
        i = (step * 7 + seed * 13) % 40
        found = cache.get(Cache.key(str(i)))
        if found is not None and found != _payload(i):
            sys.exit(1)
        cache.put(Cache.key(str(i)), _payload(i))
        if step % 97 == seed:
            cache.clear()
        if step % 31 == seed:
            cache.prune()


def test_processes_fill_one_folder_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTARRAY_CACHE_SIZE", "20K")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fill, args=(tmp_path / "c", seed)) for seed in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert temporary_files(tmp_path / "c") == []


def test_threads_share_one_cache(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(300):
            i = (step * 7 + seed) % 20
            cache.put(Cache.key(str(i)), _payload(i))
            if cache.get(Cache.key(str(i))) != _payload(i):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.info().count == 20


def _put_for_ever(folder: Path) -> None:
    cache = Cache(folder)
    while True:
        cache.put(KEY, bytes(200_000))


def test_a_killed_process_leaves_no_half_written_entry(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    for _ in range(3):
        process = context.Process(target=_put_for_ever, args=(tmp_path,))
        process.start()
        while not list(tmp_path.glob("*.program")):
            time.sleep(0.01)
        time.sleep(0.05)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert Cache(tmp_path).get(KEY) == bytes(200_000)


def test_opening_and_one_get_are_quick(tmp_path: Path) -> None:
    Cache(tmp_path).put(KEY, bytes(20_000))
    times = []
    for _ in range(20):
        start = time.perf_counter()
        assert Cache(tmp_path).get(KEY) is not None
        times.append(time.perf_counter() - start)
    assert min(times) < 1e-3
