"""The op table: the one place that says what an op is. Every other table is keyed by it."""

from .table import COUNT_BLOCK, OPS, UFUNC_OPS, Op

__all__ = ["COUNT_BLOCK", "OPS", "UFUNC_OPS", "Op"]
