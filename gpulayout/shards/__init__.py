"""Which rank holds which part of an array, and what goes from rank to rank."""
