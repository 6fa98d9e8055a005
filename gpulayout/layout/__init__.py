"""What an array in memory is: its element type, dimensions, layout and stride table, and the text of all of them."""
