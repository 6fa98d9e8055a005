"""The CUDA side: chooses a kernel for a move, plans the launch, and launches it."""
