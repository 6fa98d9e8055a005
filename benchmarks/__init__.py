"""Benchmarks: what is moved (cases), who moves it (peers), where and how it is timed (the sides, the clocks), one run
and one report.
"""
