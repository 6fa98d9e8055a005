"""The public functions, and the one door for arrays."""
