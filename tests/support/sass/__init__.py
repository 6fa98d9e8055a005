"""Executes the machine code of the kernels, sm_80 to sm_100, on the CPU, and counts its instructions."""
