"""Calls a function with tracers and records what it does to them as a graph."""
