"""The op table: the one place that says what an op is. Every other table is keyed by it."""

from .table import OPS, UFUNC_OPS, Op

__all__ = ["OPS", "UFUNC_OPS", "Op"]
