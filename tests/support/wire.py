"""Protobuf's wire format by hand, to look into messages without the code under test.

A message is a list of fields [number, wire type, value]: an int for a varint (wire type 0), bytes for fixed sizes (1
and 5), for length-delimited ones (2) and for groups (3), and again a list where a field is known to hold a message.
"""

MESSAGES = {  # which fields of a message are known, and which message each one holds
    "ShapeProto": {2: None, 3: None, 4: "ShapeProto", 5: "LayoutProto", 6: None},
    "LayoutProto": {**dict.fromkeys(range(1, 17)), 6: "TileProto", 10: "ShapeProto", 17: "SplitConfigProto"},
    "TileProto": {1: None},
    "SplitConfigProto": {1: None, 2: None},
}
REPEATED = {("ShapeProto", 4), ("LayoutProto", 6), ("LayoutProto", 17)}


def decode(data, kind=None):
    """The fields of a message; ValueError or IndexError for other bytes."""
    fields, position = [], 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        value, position = _value(data, position, number, wire_type)
        nested = MESSAGES.get(kind, {}).get(number) if wire_type == 2 else None
        fields.append([number, wire_type, decode(value, nested) if nested else value])
    return fields


def encode(fields):
    """The bytes of a message; the inverse of `decode`, except for varints that were longer than needed."""
    found = b""
    for number, wire_type, value in fields:
        found += varint(number << 3 | wire_type)
        if wire_type == 0:
            found += varint(value)
        elif wire_type == 2:
            data = encode(value) if isinstance(value, list) else value
            found += varint(len(data)) + data
        else:
            found += value
    return found


def unknown_fields(fields, kind, path=()):
    """Every field that the message `kind` does not have, with its place: [(path, number, wire type, value)], sorted.

    A message that occurs twice in a field that holds one is merged, as protobuf does.
    """
    found, known, entries, once = [], MESSAGES[kind], {}, {}
    for number, wire_type, value in fields:
        if number not in known:
            found.append((path, number, wire_type, value))
        elif isinstance(value, list) and (kind, number) in REPEATED:
            entry = entries[number] = entries.get(number, -1) + 1
            found += unknown_fields(value, known[number], (*path, number, entry))
        elif isinstance(value, list):
            once[number] = once.get(number, []) + value
    for number, value in once.items():
        found += unknown_fields(value, known[number], (*path, number))
    return sorted(found, key=repr)


def varint(value):
    """The bytes of one number, of at most 64 bits."""
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def _varint(data, position):
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 127) << shift
        shift, position = shift + 7, position + 1
        if byte < 128:
            return value, position
        if shift > 63:
            raise ValueError("a varint of more than ten bytes")


def _value(data, position, number, wire_type):
    """(value, where it ends)."""
    if wire_type == 0:
        return _varint(data, position)
    if wire_type == 3:  # a group: all fields up to the end of the same number
        start = position
        while True:
            tag, position = _varint(data, position)
            if tag & 7 == 4:
                if tag >> 3 != number:
                    raise ValueError("a group that another one ends")
                return data[start:position], position
            position = _value(data, position, tag >> 3, tag & 7)[1]
    if wire_type == 2:
        length, position = _varint(data, position)
    elif wire_type in (1, 5):
        length = {1: 8, 5: 4}[wire_type]
    else:
        raise ValueError(f"wire type {wire_type}")
    if position + length > len(data):
        raise ValueError("a field that is cut off")
    return data[position : position + length], position + length
