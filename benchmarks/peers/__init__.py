"""The contenders: this library, plain NumPy or CuPy code, and other libraries."""
