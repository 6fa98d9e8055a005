"""The planner of tiles with more than two axes in shared memory."""
