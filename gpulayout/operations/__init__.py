"""The public functions: index conversion, pack, unpack, relayout, views and plans."""
