"""What is moved: one frozen value per case, and lists of them, shared by the command line and the bench_*.py files."""
