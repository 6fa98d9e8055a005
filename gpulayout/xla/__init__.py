"""The rest of XLA's utilities for shapes: bitcasts, comparison, tuples, protos, programs as text."""
