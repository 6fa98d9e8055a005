"""Mutation: puts small faults into kernels and modules, and checks that a test notices each.

    python -m tests.mutants --minutes 60               all kernel mutants: the table in kernel_table.py
    python -m tests.mutants --python --minutes 60      a random sample of Python mutants; needs the extra `mutation`
    python -m tests.mutants --list                     the names
    python -m tests.mutants --only copy.cu             those whose name contains this text

Each mutant is tried in a copy of the tree; the tests that should notice it run there, cheap ones first.  A mutant is
killed when one of them fails; that test must then pass on the unchanged copy.  A mutant that no test notices survives:
either a test is missing, or the mutant is equivalent, and kernel_table.py or python_equivalents.py says why.

The exit status is 1 when a mutant survives, is noticed though it is called equivalent, or no longer finds its text.

Not part of continuous integration: it takes an hour.  tests/mutants/test_mutants.py keeps the table in step with the
kernels.
"""
