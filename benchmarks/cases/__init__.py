"""What is moved: one frozen value per case, and the lists of them.  The command line and the bench_*.py files share
them.
"""
