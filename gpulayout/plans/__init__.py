"""Plans: prepared once, run many times, cut in blocks, streamed."""
