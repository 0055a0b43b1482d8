"""A folder of compiled results, keyed by content: bounded, verified, safe to share between processes.

One file an entry, `<key>.<kind>`: magic, format version, SHA-256 of name and payload, payload. Files appear
whole (written aside, then renamed) and are trusted only when they verify and belong to this user alone:
what comes out of here is executed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import struct
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from aotarray.errors import CacheError

_HEADER = struct.Struct("<8sI32s")
_MAGIC, _VERSION = b"aotarray", 1
_ENTRY = re.compile(r"[0-9a-f]{64}\.[a-z0-9]+")
_TEMPORARY = ".aotarray-"
_MARKER = ".aotarray-pruned"
_HOUR = 3600.0
_DEFAULT_LIMIT = 1 << 30
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_WAY_ROUND = 'set AOTARRAY_CACHE_DIR to a folder of your own, or to "off"'


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What the cache holds: `bytes` on disk out of `limit`; `folder` is None, with a `reason`, when off."""

    count: int
    bytes: int
    folder: Path | None
    limit: int
    reason: str = ""


class Cache:
    """The entries of one folder.

    `folder` None means AOTARRAY_CACHE_DIR, else `$XDG_CACHE_HOME/aotarray`, else `~/.cache/aotarray`;
    AOTARRAY_CACHE_DIR set to nothing or "off" switches the cache off. AOTARRAY_CACHE_SIZE ("500M", "2G")
    bounds it, 1 GiB if unset. Raises `CacheError` when others can write into the folder. A folder that
    cannot be made costs one warning; the cache is then off: `get` finds nothing, `put` returns False.

    >>> import tempfile
    >>> cache = Cache(Path(tempfile.mkdtemp()))
    >>> key = Cache.key("source", b"target")
    >>> cache.put(key, b"code"), cache.get(key)
    (True, b'code')
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.limit = _limit()
        self.reason = ""
        self.folder = folder if folder is not None else self._default_folder()
        self._lock = threading.Lock()
        self._warned = False
        self._puts = 0
        self._bytes_put = 0
        if self.limit == 0:
            self.folder, self.reason = None, "AOTARRAY_CACHE_SIZE is 0"
        if self.folder is not None:
            try:
                _open_folder(self.folder)
            except OSError as error:
                self._switch_off(f"the cache folder {self.folder} cannot be used ({error.strerror or error})")

    @staticmethod
    def key(*parts: bytes | str) -> str:
        """SHA-256 of the parts in hex. Each is tagged and prefixed with its length: `("ab", "c")` and
        `("a", "bc")` differ, and so do `"a"` and `b"a"`."""
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            digest.update(struct.pack("<cQ", b"s" if isinstance(part, str) else b"b", len(data)))
            digest.update(data)
        return digest.hexdigest()

    def get(self, key: str, kind: str = "program") -> bytes | None:
        """The payload put under `key`, or None. A damaged or foreign file is removed."""
        name = _name(key, kind)
        if self.folder is None:
            return None
        path = os.path.join(self.folder, name)
        try:
            # O_NONBLOCK: a FIFO in our place must not hang us.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ELOOP:
                _remove(path)
            return None
        try:
            payload = _verified(fd, name)
        except OSError:
            return None
        finally:
            os.close(fd)
        if payload is None:
            _remove(path)
        return payload

    def put(self, key: str, payload: bytes, kind: str = "program") -> bool:
        """Store `payload`; False, after one warning, when it cannot be stored. Never raises OSError."""
        name = _name(key, kind)
        if self.folder is None or len(payload) + _HEADER.size > self.limit:
            return False
        blob = _HEADER.pack(_MAGIC, _VERSION, _digest(name, payload)) + payload
        try:
            try:
                _write(self.folder, name, blob)
            except FileNotFoundError:  # someone removed the folder
                _open_folder(self.folder)
                _write(self.folder, name, blob)
        except (OSError, CacheError) as error:
            self._warn(f"a compiled result could not be kept in {self.folder} ({error})")
            return False
        if self._prune_is_due(len(blob)):
            with contextlib.suppress(OSError):
                self.prune()
        return True

    def prune(self) -> None:
        """Remove stale temporary files and, when the entries exceed the limit, the ones least recently
        used until they fill four fifths of it."""
        if self.folder is None:
            return
        with contextlib.suppress(OSError):
            marker = os.path.join(self.folder, _MARKER)
            os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            os.utime(marker, follow_symlinks=False)
        entries, temporary = _scan(self.folder)
        for mtime, _, path in temporary:
            if time.time() - mtime > _HOUR:
                _remove(path)
        total = sum(size for _, size, _ in entries)
        if total > self.limit:
            for _, size, path in sorted(entries):
                if total <= self.limit * 4 // 5:
                    break
                _remove(path)
                total -= size

    def info(self) -> CacheInfo:
        """Count and bytes of the entries, the folder and the limit."""
        entries: _Found = []
        if self.folder is not None:
            with contextlib.suppress(OSError):
                entries, _ = _scan(self.folder)
        return CacheInfo(
            len(entries), sum(size for _, size, _ in entries), self.folder, self.limit, self.reason
        )

    def clear(self) -> int:
        """Remove every entry, and nothing else that lies in the folder; returns how many there were."""
        if self.folder is None:
            return 0
        try:
            entries, temporary = _scan(self.folder)
        except OSError:
            return 0
        for mtime, _, path in temporary:
            if time.time() - mtime > _HOUR:
                _remove(path)
        return sum(_remove(path) for _, _, path in entries)

    def _default_folder(self) -> Path | None:
        chosen = os.environ.get("AOTARRAY_CACHE_DIR")
        if chosen is not None:
            if chosen in ("", "off"):
                self.reason = "AOTARRAY_CACHE_DIR switches it off"
                return None
            return Path(os.path.abspath(os.path.expanduser(chosen)))
        base = os.environ.get("XDG_CACHE_HOME", "")
        # The XDG base directory specification has relative paths ignored.
        if not os.path.isabs(base):
            base = os.path.expanduser("~/.cache")
        return Path(base, "aotarray")

    def _switch_off(self, reason: str) -> None:
        self._warn(f"{reason}: compiled results are not kept")
        self.folder, self.reason = None, reason

    def _warn(self, message: str) -> None:
        with self._lock:
            warned, self._warned = self._warned, True
        if not warned and message not in _warnings_given:
            _warnings_given.add(message)
            warnings.warn(f"{message}; {_WAY_ROUND}", RuntimeWarning, stacklevel=4)

    def _prune_is_due(self, size: int) -> bool:
        """Every 64 entries or sixteenth of the limit that this process writes, and at its first entry when
        nobody looked for an hour: many short processes are bounded too, and no put scans for nothing."""
        with self._lock:
            first = self._puts == 0
            self._puts += 1
            self._bytes_put += size
            if self._puts % 64 == 0 or self._bytes_put > self.limit // 16:
                self._bytes_put = 0
                return True
        if not first or self.folder is None:
            return False
        try:
            return time.time() - os.lstat(os.path.join(self.folder, _MARKER)).st_mtime > _HOUR
        except OSError:
            return True


#: Several caches on one bad folder give one warning a process.
_warnings_given: set[str] = set()


def _limit() -> int:
    text = os.environ.get("AOTARRAY_CACHE_SIZE", "").strip()
    if not text:
        return _DEFAULT_LIMIT
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None:
        raise CacheError(f"AOTARRAY_CACHE_SIZE={text!r} is not a size; write it like 500M or 2G")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _name(key: str, kind: str) -> str:
    name = f"{key}.{kind}"
    if _ENTRY.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a SHA-256 in hex with a lower-case kind")
    return name


def _digest(name: str, payload: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0")
    digest.update(payload)
    return digest.digest()


def _open_folder(folder: Path) -> None:
    """Make the folder for this user alone, or check that nobody else can write into it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    for status in (os.lstat(folder), os.stat(folder)):  # of a symbolic link, both link and target
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != os.geteuid():
            raise CacheError(
                f"the cache folder {folder} belongs to {_user(status.st_uid)} (mode {mode:o}), "
                f"not to {_user(os.geteuid())}, who would run what lies in it: {_WAY_ROUND}"
            )
        if not stat.S_ISLNK(status.st_mode) and mode & 0o022:
            raise CacheError(
                f"the cache folder {folder} of {_user(status.st_uid)} has mode {mode:o}: others can write "
                f"into it, and what lies in it is run. Do `chmod 700 {folder}`, or {_WAY_ROUND}"
            )
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def _user(uid: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _verified(fd: int, name: str) -> bytes | None:
    """The payload of an open entry if it is whole, ours, and of this format. Notes its use hourly."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        return None
    with open(fd, "rb", buffering=0, closefd=False) as file:
        blob = file.readall()
    if len(blob) < _HEADER.size:
        return None
    magic, version, digest = _HEADER.unpack_from(blob)
    payload = blob[_HEADER.size :]
    if magic != _MAGIC or version != _VERSION or digest != _digest(name, payload):
        return None
    if abs(time.time() - status.st_mtime) > _HOUR:
        with contextlib.suppress(OSError):
            os.utime(fd)
    return payload


def _write(folder: Path, name: str, blob: bytes) -> None:
    temporary = os.path.join(folder, f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            view = memoryview(blob)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        os.replace(temporary, os.path.join(folder, name))
    except BaseException:
        _remove(temporary)
        raise


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


_Found = list[tuple[float, int, str]]


def _scan(folder: Path) -> tuple[_Found, _Found]:
    """(mtime, size, path) of the entries, and of temporary files. Nothing else in the folder is ours."""
    entries: _Found = []
    temporary: _Found = []
    with os.scandir(folder) as files:
        for file in files:
            if _ENTRY.fullmatch(file.name):
                found = entries
            elif file.name.startswith(_TEMPORARY) and file.name != _MARKER:
                found = temporary
            else:
                continue
            with contextlib.suppress(OSError):  # gone meanwhile
                status = file.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, file.path))
    return entries, temporary
