"""Layouts and plans as source text for other kernels."""
