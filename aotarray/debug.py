"""Looking into compiled functions as they run.

>>> import aotarray
>>> aotarray.debug.print("{x:.1f} and {y}", x=1.25, y=[2, 3])
1.2 and [2, 3]
"""

from __future__ import annotations

from .trace.effects import debug_print as print

__all__ = ["print"]
