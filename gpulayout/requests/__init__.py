"""What a call means, before any memory is touched."""
