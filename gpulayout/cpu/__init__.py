"""How the CPU executes moves, in native code or by NumPy: planning and execution side by side."""
