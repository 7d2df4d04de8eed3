"""Hop logs of a federation that never was, with the truth beside them: what tests and benchmarks are judged by."""
