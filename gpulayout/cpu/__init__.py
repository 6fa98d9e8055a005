"""How NumPy executes moves: planning and execution side by side."""
