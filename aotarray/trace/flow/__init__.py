"""Python's own control flow over traced values: a function's source, rewritten so that it is compiled as it is."""
