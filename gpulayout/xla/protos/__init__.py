"""Shapes and layouts as the bytes of XLA's protos; needs protobuf."""
