"""`Array`: an ndarray that also says where it lives and can be waited for; devices on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class CpuDevice:
    """The processor of this machine. Calling it gives itself, so that `y.device` and `y.device()` are one."""

    id: int = 0

    @property
    def platform(self) -> str:
        return "cpu"

    def __call__(self) -> CpuDevice:
        return self

    def __repr__(self) -> str:
        return f"CpuDevice(id={self.id})"


CPU = CpuDevice()


class Array(np.ndarray[Any, Any]):
    """A result of a compiled function: an ndarray in every way, with JAX's words for waiting and place."""

    __slots__ = ()

    def block_until_ready(self) -> Array:
        """The array itself: on the CPU a result is complete when the call returns."""
        return self

    def copy_to_host(self) -> np.ndarray[Any, Any]:
        """The array as a plain ndarray on the host."""
        return np.asarray(self).view(np.ndarray)


# On CPU arrays NumPy's own attribute says "cpu"; ours is the device object.
Array.device = CPU  # type: ignore[assignment]
