"""What torch.compile says of a graph that breaks."""


def said(error):
    """The words of the error, without the lines of the caller's code that it shows: in a table of cases those may hold
    the expected words too.
    """
    return str(error).partition("from user code")[0]
