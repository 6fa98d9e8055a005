"""Index conversion of whole arrays."""
