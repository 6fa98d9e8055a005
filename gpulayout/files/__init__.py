"""Arrays and buffers in files: how they are read, and how a new file appears whole or not at all."""
