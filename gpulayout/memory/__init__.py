"""Where the memory of an array lies that another library made: DLPack, the CUDA array interface, mapped files."""
