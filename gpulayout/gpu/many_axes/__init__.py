"""Plans tiles of more than two axes in shared memory."""
