"""Benchmarks: cases define what is moved, peers move it, sides and clocks time it; a run records it, a report prints
it.
"""
