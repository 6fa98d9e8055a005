"""Calls on memory: read, opened, checked, run, and remembered."""
