"""The public functions, and the checks that every array passes."""
