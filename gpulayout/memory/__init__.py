"""The memory of other libraries' arrays: DLPack, the CUDA array interface, and mapped files."""
