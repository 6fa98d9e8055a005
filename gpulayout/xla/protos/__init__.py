"""Shapes and layouts as the bytes of XLA's protos.  Needs protobuf, the extra `proto`."""
