"""Who moves it: this library, the plain way with NumPy or CuPy, and the libraries beside it."""
