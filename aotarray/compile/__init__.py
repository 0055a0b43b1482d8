"""Source to IR to machine code, and the cache that keeps the results."""
