"""Which backend runs a call, and what a relayout will do there."""
