"""The planner of tiles that have more than two axes in shared memory."""
