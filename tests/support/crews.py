"""Crews of threads that behave badly."""

from gpulayout.cpu import threads


class SoloCrew(threads.Crew):
    """No thread comes to help."""

    def invite(self, call, guests, size):
        pass


def refuse(function, arguments):
    raise RuntimeError("can't start new thread")
