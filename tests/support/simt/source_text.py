"""The C++ text that is compiled for a kernel text: the shim, the kernels, their exports."""

HEADERS = '#include "simt.hpp"\n'


def compilation_unit(text, kernel_names):
    """Text for g++.  Messages of compiler and sanitizers name lines of kernel.cu, which is `text`.

    The unnamed namespace gives inline functions and templates internal linkage.  Without it, their
    __shared__ objects could not share an ELF section with those of other functions.
    """
    exports = "\n".join(f"SIMT_EXPORT({name})" for name in kernel_names)
    return f'{HEADERS}namespace {{\n#line 1 "kernel.cu"\n{text}\n}}\n#line 1 "exports"\n{exports}\n'


def macro_flags(macros):
    """-DNAME=value in a fixed order, so that equal macros give equal builds."""
    return tuple(f"-D{name}={int(value)}" for name, value in sorted(macros.items()))


def three(sizes):
    """(x, y, z) of a grid or block given as an int or up to three ints."""
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return (sizes + (1, 1))[:3]
