"""How CUDA carries moves out: the choice of a kernel, a planner for every family of kernels, launches."""
