"""What has to move, on any machine: moves, packed moves, look-ups, index programs, and what a backend must do with
them.
"""
