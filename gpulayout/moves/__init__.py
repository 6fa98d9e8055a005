"""Plans for any device (moves, packed moves, look-ups, index programs), and the interface of a backend."""
