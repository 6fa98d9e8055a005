"""`convert` of generated code: plans of a covering set of types and forms, and what each element must become."""

import ctypes
import functools
import hashlib
import subprocess
from fractions import Fraction
from typing import NamedTuple

import numpy as np

import gpulayout as gl
from gpulayout import ElementType
from tests import reference_arithmetic as model
from tests.support import arithmetic_cases
from tests.support.generated_code import COMPILERS, WARNINGS

TYPES = tuple(element_type for element_type in ElementType if not element_type.is_complex)
FLOATS = tuple(each for each in TYPES if each.is_floating)
WHOLE = tuple(each for each in TYPES if each.is_integral)
FUSING = ("-march=native", "-ffp-contract=fast")
# Beside ties of the floats, which f64 would round first, and the ends of ranges.
TIES = (2**53 + 1, 2**60 + 2**52 + 1, 2**60 + 2**36 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 2**52 - 1, 65519, 65520)


class Case(NamedTuple):
    """A plan of an array of 2 x 3 elements, and the keywords of its arithmetic.

    Parameters with several numbers have one for each of the 3 columns.
    """

    source: ElementType
    target: ElementType
    options: dict

    @property
    def plan(self):
        return gl.plan(f"{self.source}[2,3]", "{0,1}", dtype=self.target, **self.options)

    @property
    def arguments(self):
        """The names of the parameters that `convert` takes."""
        return [name for name, value in self.options.items() if np.ndim(value)]

    @property
    def elements(self):
        """Codes, each of them with an operand for every argument: all codes of 8 bits, and some of the others."""
        codes = codes_of(self.source)
        return codes, [np.resize(np.array(self.options[name]), len(codes)) for name in self.arguments]

    @property
    def expected(self):
        """The codes of the results, by the model."""
        codes, operands = self.elements
        options = self.options | dict(zip(self.arguments, operands))
        return arithmetic_cases.expected_codes(codes, self.source, self.target, options)

    def check(self, found):
        """Compare an array of results, values or codes."""
        expected = self.expected
        assert found.dtype.itemsize == expected.dtype.itemsize, (self, found.dtype)
        codes = np.ascontiguousarray(found).view(self.target.carrier)
        both_nan = model.is_nan(codes, self.target.value) & model.is_nan(expected, self.target.value)
        wrong = np.flatnonzero((codes != expected) & ~both_nan)
        given = self.elements[0]
        assert not wrong.size, (self, [(hex(given[k]), hex(codes[k]), hex(expected[k])) for k in wrong[:5]])
        return len(codes)


@functools.cache
def codes_of(element_type):
    """All codes of a type of 8 bits or fewer; of others special ones, ties and random ones."""
    width = model.width_of(element_type.value)
    if width <= 8:
        return np.arange(1 << width, dtype=element_type.carrier)
    found = [*arithmetic_cases.pool_of(element_type).tolist(), 1, 2, (1 << width - 1) - 1, 1 << width - 1]
    if element_type.is_floating:
        kind = model.float_of(element_type.value)
        found += [kind.largest, kind.sign | kind.largest, 1 << kind.mantissa_bits, (1 << kind.mantissa_bits) - 1]
        found += [model.encode(Fraction(numerator, 2**shift), element_type.value) for numerator, shift in NEAR_TIES]
    found += [tie % (1 << width) for tie in TIES] + [-tie % (1 << width) for tie in TIES]
    return np.array(found, np.uint64).astype(element_type.carrier)


# Just above, at and below half of a last place of f16, bf16 and f8, normal and subnormal; f32 rounds some of them.
NEAR_TIES = tuple(
    (numerator * 2**20 + off, shift + 20)
    for numerator, shift in ((2049, 11), (257, 8), (17, 4), (3, 25), (3, 10), (1, 134))
    for off in (-1, 0, 1)
)


def casts():
    """Every type from and to a few others, with saturation and without where that differs."""
    few = [ElementType(name) for name in ("f32", "f64", "s64", "u64", "s8", "f8e4m3fn")]
    pairs = {pair for each in TYPES for other in few for pair in ((each, other), (other, each)) if each is not other}
    found = [Case(*pair, {}) for pair in sorted(pairs)]
    strict = [ElementType(name) for name in ("f8e4m3fn", "f8e5m2fnuz", "f8e8m0fnu")]
    return [*found, *(Case(ElementType.F64, target, {"saturate": False}) for target in strict)]


def with_steps():
    """Every form with arrays and with numbers as parameters, and every type on each side."""
    scale, shift = np.array([0.1, -1.25, 3.0]), np.array([0.1, 100.0, -0.75])
    point = np.array([0, 1, 1])
    found = [Case(each, ElementType.F32, {"scale": scale, "shift": shift}) for each in TYPES]
    found += [Case(ElementType.F32, each, {"scale": 0.3, "shift": shift}) for each in TYPES]
    found += [Case(ElementType.F64, each, {"scale": scale, "shift": 0.1}) for each in TYPES]
    found += [Case(ElementType.U8, each, {"unit": True, "mean": scale, "std": shift}) for each in FLOATS]
    found += [Case(ElementType.U8, ElementType.F16, {"unit": True, "mean": 0.485, "std": 0.229})]
    found += [
        Case(ElementType.F32, each, {"scale": scale, "zero_point": 0 if each == "s1" else point}) for each in WHOLE
    ]
    found += [Case(ElementType.F16, each, {"scale": 0.1, "zero_point": 0}) for each in WHOLE]
    found += [
        Case(each, ElementType.BF16, {"scale": scale, "zero_point": 0 if each == "s1" else point}) for each in WHOLE
    ]
    found += [Case(ElementType.F32, ElementType.F8E4M3FN, {"scale": scale, "divide": True})]
    found += [Case(ElementType.F32, each, {"scale": scale, "shift": shift, "divide": True}) for each in WHOLE]
    return found


# ---- compiled --------------------------------------------------------------------------------------------------------


def loop(case, name, call, head, types):
    """A function over arrays: x, up to three operands, the results and their number.

    types   of x, of the operands and of a result
    """
    given, real, made = types
    operands = "".join(f", {'abc'[k]}[n]" for k in range(len(case.arguments)))
    pointers = "".join(f", const {real}* {each}" for each in "abc")
    signature = f"{head} {name}(const {given}* x{pointers}, {made}* y, long long count)"
    body = f"for (long long n = 0; n < count; ++n) y[n] = {call}(x[n]{operands});"
    return f"{signature};\n{signature} {{\n  (void)a, (void)b, (void)c;\n  {body}\n}}\n"


def types_of(case, truth):
    """What `loop` calls the types, found in the text of the code; pred is `truth`."""
    from gpulayout.codegen.code_c import c_type

    compute = case.plan.change.arithmetic.compute
    return [truth if each == "pred" else c_type(each) for each in (case.source, compute, case.target)]


def arrays_of(case):
    """x, three operands of the compute type, and room for the results."""
    codes, operands = case.elements
    real = case.plan.change.arithmetic.compute.dtype
    given = [np.ascontiguousarray(each, real) for each in operands]
    return [codes, *given, *[np.zeros(1, real)] * (3 - len(given)), np.zeros(len(codes), case.target.carrier)]


def compiled_c(cases, compiler, folder, change=lambda text: text):
    """For each case a function that gives the results of its code in C, compiled so that steps fuse if they can.

    change   what is done to each text first
    """
    _, command = COMPILERS[compiler]
    texts = [change(gl.code(case.plan, "c", name=f"P{n}")) for n, case in enumerate(cases)]
    loops = [
        loop(case, f"P{n}_all", f"P{n}_convert", "void", types_of(case, "unsigned char"))
        for n, case in enumerate(cases)
    ]
    extern = ['extern "C" {', *loops, "}"] if command[0] == "g++" else loops
    unit = "\n".join([*texts, *extern])
    name = hashlib.sha256(f"{compiler} {unit}".encode()).hexdigest()[:20]
    source, library = folder / f"{name}.txt", folder / f"{name}.so"
    source.write_text(unit)
    flags = [flag for flag in WARNINGS if flag != "-Wpedantic"] + [*FUSING, "-pedantic", "-O2", "-fPIC", "-shared"]
    done = subprocess.run([*command, *flags, str(source), "-o", str(library)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    loaded = ctypes.CDLL(str(library))

    def run(case, number):
        arrays = arrays_of(case)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        getattr(loaded, f"P{number}_all")(*pointers, ctypes.c_longlong(len(arrays[0])))
        return arrays[-1]

    return [functools.partial(run, case, number) for number, case in enumerate(cases)]


def with_kernels(cases):
    """CUDA: the code of each case, called P0, P1, ..., and a kernel that converts an element in each thread."""
    found = [gl.code(case.plan, "cuda", name=f"P{n}") for n, case in enumerate(cases)]
    for n, case in enumerate(cases):
        given, real, made = types_of(case, "bool")
        operands = "".join(f", {'abc'[k]}[n]" for k in range(len(case.arguments)))
        pointers = "".join(f", const {real}* {each}" for each in "abc")
        taken = f"const {given}* x{pointers}, {made}* y, long long count"
        found.append(f"""extern "C" __global__ void convert{n}({taken}) {{
  const long long n = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (n < count) y[n] = P{n}::convert(x[n]{operands});
}}
""")
    return "\n".join(found)


def in_kernel(module, case, number):
    """The results of a kernel of `with_kernels`."""
    arrays = arrays_of(case)
    count = len(arrays[0])
    module.kernel(f"convert{number}")(-(-count // 64), 64, (*arrays, count))
    return arrays[-1]


def in_python(case):
    """The results of its code in Python."""
    names = {}
    exec(gl.code(case.plan, "python", name="it"), names)
    codes, operands = case.elements
    return names["it_convert"](codes.view(case.source.dtype), *operands)
