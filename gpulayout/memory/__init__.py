"""Where another library's array lies in memory: DLPack, the CUDA array interface, mapped files."""
