"""What a layout is: element types, padding, layouts, shapes, their text, and when two of them hold the same bytes."""
