"""Machine codes of one architecture joined into one file, for a disassembler that takes longer to start than to work.

Only what the text of instructions depends on is kept: the code and its symbols.  A kernel K of the n-th machine code is
called `n$K` in the joined one.
"""

import re
import struct

_HEADER, _SECTION, _SYMBOL = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_SYMBOLS, _TEXTS = 2, 3  # kinds of sections
_CODE = b".text."


class _Texts:
    """A section of texts, each ending in a zero byte."""

    def __init__(self):
        self.data = bytearray(1)

    def place(self, text):
        self.data += text + b"\0"
        return len(self.data) - len(text) - 1


def joined(cubins):
    """One file with the kernels of all; their architecture is that of the first."""
    names, texts = _Texts(), _Texts()
    symbols, sections = [bytes(_SYMBOL.size)], []  # sections: [name, row without name and offset, content]
    first = 4  # the number of the first section of code; before it nothing, both texts, and the symbols
    for number, cubin in enumerate(cubins):
        rows = _sections(cubin)
        code = [k for k, (name, row) in enumerate(rows) if name.startswith(_CODE)]
        moved = {k: first + len(sections) + place for place, k in enumerate(code)}
        renumbered = _take_symbols(cubin, rows, moved, b"%d$" % number, texts, symbols)
        sections += [_code(cubin, rows[k], number, renumbered) for k in code]
    table = [[b".shstrtab", (_TEXTS, 0, 0, 0, 0, 1, 0), None], [b".strtab", (_TEXTS, 0, 0, 0, 0, 1, 0), texts.data]]
    table.append([b".symtab", (_SYMBOLS, 0, 0, 2, 1, 8, _SYMBOL.size), b"".join(symbols)])
    return _file(cubins[0], names, table + sections)


def parted(text, count):
    """The disassembler's text of a joined file in parts, one for each of the machine codes, without their numbers."""
    parts = [""] * count
    for section in re.split(r"^(?=//-----)", text, flags=re.MULTILINE):
        if found := re.match(r"//-+ \.text\.(\d+)\$", section):
            parts[int(found[1])] += re.sub(rf"(?<![\w$]){found[1]}\$(?=[\w$])", "", section)
    return parts


def _sections(cubin):
    """(name, row) of every section."""
    head = _HEADER.unpack_from(cubin)
    rows = [_SECTION.unpack_from(cubin, head[6] + k * head[11]) for k in range(head[12])]
    start = rows[head[13]][4]
    return [(cubin[start + row[0] : cubin.index(b"\0", start + row[0])], row) for row in rows]


def _take_symbols(cubin, rows, moved, prefix, texts, symbols):
    """Add the symbols of the sections that are kept and those of none; their new numbers by the old ones."""
    renumbered = {0: 0}
    for _, row in rows:
        if row[1] != _SYMBOLS:
            continue
        start = rows[row[6]][1][4]
        for old in range(1, row[5] // _SYMBOL.size):
            name, info, other, section, value, size = _SYMBOL.unpack_from(cubin, row[4] + old * _SYMBOL.size)
            if section in moved or not section:
                label = cubin[start + name : cubin.index(b"\0", start + name)]
                code = _CODE if label.startswith(_CODE) else b""  # a section is a symbol too
                place = texts.place(code + prefix + label.removeprefix(code)) if label else 0
                renumbered[old] = len(symbols)
                symbols.append(_SYMBOL.pack(place, info, other, moved.get(section, 0), value, size))
    return renumbered


def _code(cubin, section, number, renumbered):
    name, (_, kind, flags, _, offset, size, _, info, align, entry) = section
    info = info & 0xFF000000 | renumbered.get(info & 0xFFFFFF, 0)  # registers, and the symbol of the kernel
    renamed = _CODE + b"%d$" % number + name.removeprefix(_CODE)
    return [renamed, (kind, flags, 0, 3, info, align, entry), cubin[offset : offset + size]]


def _file(cubin, names, table):
    places = [names.place(name) for name, *_ in table]
    table[0][2] = names.data
    data, rows = bytearray(_HEADER.size), [bytes(_SECTION.size)]
    for place, (_, (kind, flags, address, link, info, align, entry), content) in zip(places, table):
        data += bytes(-len(data) % 128)
        rows.append(_SECTION.pack(place, kind, flags, address, len(data), len(content), link, info, align, entry))
        data += content
    data += bytes(-len(data) % 8)
    head = list(_HEADER.unpack_from(cubin))
    head[5], head[6], head[9], head[10], head[12], head[13] = 0, len(data), 0, 0, len(rows), 1
    data[: _HEADER.size] = _HEADER.pack(*head)
    return bytes(data) + b"".join(rows)
