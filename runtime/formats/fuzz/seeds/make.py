"""Makes seeds for all targets but `events`, of the reference data: `python3 make.py CORPUS`."""

import io
import json
import os
import struct
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ORACLE = os.path.join(HERE, "../../../../tests/oracle")
FIXTURES = os.path.join(ORACLE, "checkpoints")
CORPUS = sys.argv[1]


def put(target, name, data):
    folder = os.path.join(CORPUS, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def entries(table):
    """The keys and values of the first block of a table, which is all there is in small ones."""
    _, at = varint(table, len(table) - 48)
    _, at = varint(table, at)
    index, at = varint(table, at)
    size, at = varint(table, at)
    # The first entry of the index: nothing shared, the lengths of the key and of the value, the key, the place.
    _, at = varint(table, index)
    key, at = varint(table, at)
    _, at = varint(table, at)
    offset, at = varint(table, at + key)
    size, at = varint(table, at)
    block = table[offset : offset + size]
    end = len(block) - 4 - 4 * struct.unpack("<I", block[-4:])[0]
    at, key, found = 0, b"", []
    while at < end:
        shared, at = varint(block, at)
        own, at = varint(block, at)
        value, at = varint(block, at)
        key = key[:shared] + block[at : at + own]
        at += own
        found.append((key, block[at : at + value]))
        at += value
    return found


def pieces(data, listed):
    out = bytes([min(len(data), 255)]) + data[:255]
    for key, value in listed:
        if len(key) < 256 and len(value) < 256:
            out += bytes([len(key)]) + key + bytes([len(value)]) + value
    return out


for case in ("single", "sharded", "partitioned", "dtypes", "object", "v1", "v1_partitioned"):
    folder = os.path.join(FIXTURES, case)
    prefix = json.load(open(folder + ".json"))["prefix"]
    first = case.startswith("v1")
    table = open(os.path.join(folder, prefix + ("" if first else ".index")), "rb").read()
    put("table", case, table)
    put("checkpoint", "raw-" + case, b"\x05" + table)
    data = b""
    if not first:
        names = sorted(name for name in os.listdir(folder) if name.startswith(prefix + ".data"))
        data = open(os.path.join(folder, names[0]), "rb").read()
    put("checkpoint", case, (b"\x01" if first else b"\x00") + pieces(data, entries(table)))
    put("checkpoint", "state-" + case, b"\x02" + open(os.path.join(folder, "checkpoint"), "rb").read())
graph = open(os.path.join(FIXTURES, "object/ckpt-1.data-00000-of-00001"), "rb").read()[157 + 6 :]
put("checkpoint", "graph", b"\x03" + graph)
put("checkpoint", "slice", b"\x043,2:-:0,1")
header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"k":"v"}}      '
put("safetensors", "header", b"\x00" + header + b"12345678"[: len(header) // 8])
whole = struct.pack("<Q", len(header)) + header + b"12345678"
put("safetensors", "whole", b"\x01" + whole)
text = b"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }"
array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"12345678"
put("safetensors", "npy", b"\x03" + array)
for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("a.npy", array)
        archive.writestr("b/c.npy", array)
    put("safetensors", "npz-%d" % method, b"\x02" + packed.getvalue())

# The first byte chooses how records are read: what is expected, the ending, and the size of the buffer.
RECORDS = os.path.join(ORACLE, "tfrecord")
for name in sorted(name for name in os.listdir(RECORDS) if name.endswith(".tfrecord")):
    data = open(os.path.join(RECORDS, name), "rb").read()
    if len(data) < 4096:
        put("records", "lenient-" + name, b"\x0e" + data)
        put("records", "strict-" + name, b"\x0f" + data)


def field(number, data):
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def features(*named):
    return b"".join(field(1, field(1, name) + field(2, feature)) for name, feature in named)


FLOATS = field(2, field(1, struct.pack("<2f", 0.5, -1.0)))
WHOLES = field(3, field(1, b"\x01\x02\x03"))
STRINGS = field(1, field(1, b"one") + field(1, b""))
SPLITS = field(3, field(1, b"\x00\x01\x03"))
example = features((b"f", FLOATS), (b"i", WHOLES), (b"b", STRINGS), (b"p", SPLITS), (b"q", SPLITS))
put("messages", "example", field(1, example))
lists = b"".join(
    field(1, field(1, name) + field(2, field(1, feature) + field(1, feature)))
    for name, feature in ((b"i", WHOLES), (b"b", STRINGS), (b"r", FLOATS))
)
put("messages", "sequence", field(1, features((b"f", FLOATS))) + field(2, lists))
put("messages", "tensor", b"\x08\x01" + field(2, field(2, b"\x08\x02")) + field(4, b"12345678"))
put("messages", "csv", b"1,2.5,\"a\"\"b\"|,,")
