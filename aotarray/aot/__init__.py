"""Ahead-of-time artefacts: extension modules, wheels, and how they are linked."""
