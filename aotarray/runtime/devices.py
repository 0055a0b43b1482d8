"""Which devices there are, which one is the default, and moving arrays between them."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .arrays import CPU, Array, CpuDevice

_KINDS = {"": (CPU,), "cpu": (CPU,), "gpu": (), "cuda": (), "tpu": ()}
_default: contextvars.ContextVar[CpuDevice] = contextvars.ContextVar("aotarray_default_device", default=CPU)


def devices(kind: str = "") -> list[CpuDevice]:
    """The devices of this machine: all, or those of a kind ("cpu", "gpu", "tpu"); an empty list when there is none.

    >>> devices()
    [CpuDevice(id=0)]
    """
    if kind not in _KINDS:
        raise ValueError(f"unknown kind of device {kind!r}; choose cpu, gpu or tpu")
    return list(_KINDS[kind])


@contextmanager
def default_device(device: CpuDevice) -> Iterator[CpuDevice]:
    """Within the `with` block, compiled functions run on `device`."""
    token = _default.set(checked(device))
    try:
        yield device
    finally:
        _default.reset(token)


def device_put(x: Any, device: CpuDevice | None = None) -> Array:
    """`x` as an array on `device` (default: the default device); no copy where it is there already."""
    checked(device or _default.get())
    return np.asarray(x).view(Array)


def checked(device: Any) -> CpuDevice:
    """`device` when it is one of this machine's; UnsupportedError otherwise."""
    if device is not CPU and device != CPU:
        raise UnsupportedError(f"{device!r} is not a device of this machine; aotarray.devices() lists them")
    return CPU
