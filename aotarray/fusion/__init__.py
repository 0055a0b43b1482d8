"""Decides which nodes share a loop nest, what is stored and what is recomputed, and lowers groups to loops."""
