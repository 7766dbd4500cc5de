"""TensorFlow reads the record files that `write_records` writes, and parses what is in them.

    cargo run -p trainspec-formats --example write_records FOLDER
    python tests/interop/records.py FOLDER

Needs TensorFlow and NumPy.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

FOLDER = sys.argv[1]
RECORDS = 1000
checked = 0


def records(kind, name):
    compression = "" if name == "none" else name.upper()
    return tf.data.TFRecordDataset(os.path.join(FOLDER, f"{kind}-{name}.tfrecord"), compression_type=compression)


def same(found, expected, what):
    global checked
    checked += 1
    if not np.array_equal(found, expected):
        sys.exit(f"{what}: {found} is not {expected}")


def any_bytes(name):
    found = list(records("bytes", name).as_numpy_iterator())
    same(len(found), RECORDS, "records")
    for i, record in enumerate(found):
        length = 300_000 if i == 7 else i % 50
        same(record, bytes((i * 31 + k) % 256 for k in range(length)), f"record {i}")


def examples(name):
    features = {
        "x": tf.io.FixedLenFeature([2], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "name": tf.io.FixedLenFeature([], tf.string),
        "ids": tf.io.VarLenFeature(tf.int64),
    }
    dataset = records("examples", name).batch(128).map(lambda batch: tf.io.parse_example(batch, features))
    i = 0
    for batch in dataset:
        ids = tf.sparse.to_dense(batch["ids"], default_value=-1).numpy()
        for row in range(batch["x"].shape[0]):
            same(batch["x"][row].numpy(), np.float32([i / 8, -i]), f"x of {i}")
            same(batch["label"][row].numpy(), i - 500, f"label of {i}")
            same(batch["name"][row].numpy(), f"record {i}".encode(), f"name of {i}")
            same([k for k in ids[row] if k >= 0], [i + k for k in range(i % 3)], f"ids of {i}")
            i += 1
    same(i, RECORDS, "examples")
    # The canonical bytes are TensorFlow's own.
    for record in records("examples", name).take(50).as_numpy_iterator():
        example = tf.train.Example.FromString(record)
        same(example.SerializeToString(deterministic=True), record, "bytes of an example")


def sequences(name):
    for i, record in enumerate(records("sequences", name)):
        context, steps = tf.io.parse_single_sequence_example(
            record,
            context_features={"length": tf.io.FixedLenFeature([], tf.int64)},
            sequence_features={"steps": tf.io.FixedLenSequenceFeature([2], tf.float32)},
        )
        same(context["length"].numpy(), i % 5, f"length of {i}")
        expected = np.float32([[t + 0.5, i] for t in range(i % 5)]).reshape(-1, 2)
        same(steps["steps"].numpy(), expected, f"steps of {i}")


for name in ("none", "gzip", "zlib"):
    any_bytes(name)
    examples(name)
    sequences(name)
    print("ok", name)
print(checked, "values compared")
