"""Compares snapshots value by value, for tests/cli_export.rs: ORIGINAL EXPORTED pairs; prints one JSON object a pair.

Written from the description of the format and from nothing of oomscope. Nothing can be imported by the pickles.
"""
import gzip
import json
import os
import pickle
import pickletools
import sys


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"refused {module}.{name}")


def load(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        top = Plain(file).load()
    # Their order means nothing.
    for segments in [top] if isinstance(top, list) else [top.get("segments", []), top.get("host_segments", [])]:
        segments.sort(key=lambda segment: (segment["device"], segment["address"] % 2**64))
    return top


def size(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        return len(file.read())


def differences(a, b, path="", seen=None):
    """Where `b` differs from `a`: shared containers are compared once."""
    seen = set() if seen is None else seen
    if isinstance(a, (dict, list, tuple)):
        if (id(a), id(b)) in seen:
            return
        seen.add((id(a), id(b)))
    if type(a) is not type(b):
        yield f"{path}: {type(a).__name__} became {type(b).__name__}"
    elif isinstance(a, dict):
        for key in sorted(a.keys() | b.keys()):
            if key not in b:
                yield f"{path}.{key}: lost"
            elif key not in a:
                yield f"{path}.{key}: added"
            else:
                yield from differences(a[key], b[key], f"{path}.{key}", seen)
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            yield f"{path}: {len(a)} items became {len(b)}"
        for at, (one, other) in enumerate(zip(a, b)):
            yield from differences(one, other, f"{path}[{at}]", seen)
    elif a != b:
        yield f"{path}: {a!r} became {b!r}"


# What the unpickler of PyTorch's viewer (MemoryViz.js) reads of protocol 4.
VIEWER = set(
    "PROTO FRAME EMPTY_DICT EMPTY_LIST MARK SHORT_BINUNICODE BINUNICODE MEMOIZE BINGET LONG_BINGET SETITEM SETITEMS "
    "APPEND APPENDS BININT BININT1 BININT2 LONG1 NEWTRUE NEWFALSE NONE BINFLOAT EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 TUPLE "
    "STOP".split()
)


def opcodes(path):
    """The number of integers of more than 8 bytes, and the opcodes that the viewer does not read."""
    with open(path, "rb") as file:
        found = [(op.name, arg) for op, arg, _ in pickletools.genops(file.read())]
    long = sum(name == "LONG1" and not -(2**63) <= arg < 2**63 for name, arg in found)
    return {"long_integers": long, "strange_opcodes": sorted({name for name, _ in found} - VIEWER)}


for original, exported in zip(sys.argv[1::2], sys.argv[2::2]):
    before, after = load(original), load(exported)
    found = list(differences(before, after))
    result = {"differences": found[:20], "count": len(found), "ratio": os.path.getsize(exported) / size(original)}
    if os.path.getsize(exported) < 1 << 20:
        result |= opcodes(exported)
    print(json.dumps(result))
