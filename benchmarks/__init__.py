"""Benchmarks: cases say what is moved, peers who moves it, sides and clocks where and how it is timed; one run and one
report.
"""
