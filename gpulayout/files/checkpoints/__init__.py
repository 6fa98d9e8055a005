"""Model files of many tensors: safetensors, one file or shards with an index."""
