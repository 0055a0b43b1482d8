"""Types of the compiled launcher (launcher.c)."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

class Image:
    """Machine code mapped read-execute, its bytes from `got_offset` (page-aligned) on read-only.

    `imports` holds (offset of an 8-byte word, name of the C function whose address it gets). Raises
    ImportError for a function that is not among `import_names()`.
    """

    def __new__(cls, code: bytes, imports: Sequence[tuple[int, str]], got_offset: int) -> Image: ...

class Program:
    """A program ready to run: kernel i is at offsets[i] of the image. At most so many threads run it, if not 0."""

    def __new__(
        cls,
        words: bytes,
        constants: bytes,
        image: Image,
        offsets: Sequence[int],
        result_type: type[np.ndarray[Any, Any]] = ...,
        threads: int = 0,
    ) -> Program: ...
    def matches(self, leaves: tuple[object, ...], /) -> bool:
        """Whether dtypes, ranks, kinds of Python number and checks hold."""

    def run(
        self, leaves: tuple[object, ...], outs: tuple[np.ndarray[Any, Any] | None, ...] | None = None
    ) -> tuple[np.ndarray[Any, Any], ...]:
        """Run and return the outputs, written into `outs` where given.

        Raises TypeError for an argument of another dtype or rank, ValueError for a failed check, for an
        out of another shape or a read-only one, and what the program's own RaiseIf say.
        """

class Dispatcher:
    """A callable that runs the first of its programs that fits, and else calls self._slow(args, kwargs)."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any: ...
    def _add_entry(self, program: Program, kind: Literal["single", "tuple", "none"], /) -> None: ...
    def _clear_entries(self) -> None: ...
    def _set_parameters(self, names: tuple[str, ...], /) -> None:
        """Name the parameters, once, when none is static: calls with keywords and out= are then fast too."""

def cpu_level() -> str:
    """Level of x86-64 of this CPU ("v2", "v3", "v4", "v1" below them), "generic" on others.

    AOTARRAY_CPU=x86-64-vN asks for a lower one; ValueError when it asks for a higher one.
    """

def import_names() -> tuple[str, ...]:
    """Names of the C functions that images may import."""

def get_num_threads() -> int:
    """Largest number of threads that a call may use."""

def trim_memory() -> int:
    """Give back the memory that is kept for the next large results; returns its number of bytes."""

def set_num_threads(n: int, /) -> None:
    """Set the largest number of threads that a call may use, the caller's own included.

    Raises ValueError outside 1 to 1024.
    """
