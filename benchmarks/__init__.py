"""Benchmarks: what to run (cases), who runs it (numpy_side, cuda_side), the clocks, and the report."""
