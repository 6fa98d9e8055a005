"""What has to move, on any machine: moves, packed moves, look-ups, index programs, and the interface of a backend."""
