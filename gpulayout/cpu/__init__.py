"""How NumPy carries moves out: planning and execution side by side."""
