"""The functions that users write, and `Array`."""
