"""Hop logs of a federation that never was, with the truth beside them: which judges tests and benchmarks."""
