"""Arrays in memory as values: element type, dimensions, layout and stride table, and the text of each."""
