"""What is left to do with a module after LLVM vectorised it: the rare calls' vector forms."""

from __future__ import annotations

import re
from typing import Any

_FORM = re.compile(r"aot_\w+_x\d+$")


def inline_rare_calls(module: Any, pass_builder: Any) -> None:
    """Inline the vector forms into the loops that got them, in place, and leave the others out of the object.

    To be run on an llvmlite module after its optimisation: a call would make every iteration save registers,
    inlined it is a compare and a branch. A no-op where a module has none.
    """
    from llvmlite import binding

    forms = [function for function in module.functions if _FORM.match(function.name)]
    if not forms:
        return
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, pass_builder)
    for function in module.functions:
        if _FORM.match(function.name) and not function.is_declaration:
            function.linkage = "available_externally"
