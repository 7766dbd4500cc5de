"""Writes tests/oracle/tables.json: what TensorFlow computes of strings and tables. Byte strings are in hexadecimal."""

import json
import math
import os
import random
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf


def texts():
    draws = random.Random(18)
    found = [bytes(draws.randrange(256) for _ in range(n)) for n in [*range(0, 140), 191, 192, 193, 255, 256, 257, 1000]]
    return found + [b"Hello", b"TensorFlow", b"2.x", "Zürich".encode(), b"a,b", b" "]


def hashed(all_texts):
    full = tf.fingerprint(all_texts, method="farmhash64").numpy()
    return [
        {
            "text": text.hex(),
            "fingerprint": int.from_bytes(bytes(row), "little").to_bytes(8, "big").hex(),
            "buckets": {str(n): int(tf.strings.to_hash_bucket_fast([text], n)[0]) for n in (1, 7, 1000, 2**40)},
        }
        for text, row in zip(all_texts, full)
    ]


def crossed():
    draws = random.Random(19)
    cases = []
    for columns in ("ss", "si", "is", "ii", "sss", "sis", "iiii"):
        for buckets in (10, 1000, 2**40):
            rows = []
            for kind in columns:
                if kind == "s":
                    rows.append([bytes(draws.randrange(97, 123) for _ in range(draws.randrange(1, 40))) for _ in range(6)])
                else:
                    rows.append([draws.choice([0, 1, 5, -3, 2**40, draws.randrange(10**6)]) for _ in range(6)])
            inputs = [tf.constant(row, dtype=tf.string if kind == "s" else tf.int64, shape=[6, 1]) for row, kind in zip(rows, columns)]
            ids = tf.sparse.cross_hashed(inputs, num_buckets=buckets)
            ids = tf.sparse.to_dense(ids).numpy()[:, 0].tolist()
            # The feature column drops -1 and the empty string, and hashes the rest alike.
            keys = {f"f{i}": value for i, value in enumerate(inputs)}
            identity = [
                tf.feature_column.categorical_column_with_identity(name, 2**41) if kind == "i" else name
                for name, kind in zip(keys, columns)
            ]
            if all(value >= 0 for row, kind in zip(rows, columns) if kind == "i" for value in row):
                column = tf.feature_column.crossed_column(identity, buckets)
                indicator = column.transform_feature(
                    Cache(keys),
                    None,
                )
                assert tf.sparse.to_dense(indicator).numpy()[:, 0].tolist() == ids, columns
            shown = [[v.hex() for v in row] if kind == "s" else row for row, kind in zip(rows, columns)]
            cases.append({"columns": shown, "buckets": buckets, "ids": ids})
    return cases


class Cache:
    """What a feature column asks its inputs of."""

    def __init__(self, features):
        self.features = features

    def get(self, key, state_manager=None, training=None):
        if isinstance(key, str):
            value = self.features[key]
            present = tf.ones(value.shape, tf.bool) if value.dtype != tf.string else tf.not_equal(value, "")
            indices = tf.where(present)
            return tf.SparseTensor(indices, tf.gather_nd(value, indices), tf.cast(tf.shape(value), tf.int64))
        return key.transform_feature(self, state_manager)


def vocabularies():
    cases = []
    words = [b"Adelie", b"Gentoo", b"Chinstrap", "Zürich".encode(), b"x" * 70]
    asked = words + [b"", b"adelie", b"other", b"y" * 100, "zürich".encode(), b"0"]
    for oov in (1, 2, 5, 1000):
        table = tf.lookup.StaticVocabularyTable(
            tf.lookup.KeyValueTensorInitializer(words, tf.range(len(words), dtype=tf.int64)), oov
        )
        ids = table.lookup(tf.constant(asked)).numpy().tolist()
        cases.append({"words": [w.hex() for w in words], "oov": oov, "asked": [a.hex() for a in asked], "ids": ids})
    numbers = [7, -3, 2**40, 0]
    for oov in (1, 3, 1000):
        table = tf.lookup.StaticVocabularyTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(numbers, tf.int64), tf.range(4, dtype=tf.int64)), oov
        )
        asked = numbers + [1, -1, 12345678901]
        ids = table.lookup(tf.constant(asked, tf.int64)).numpy().tolist()
        cases.append(
            {
                "words": [str(n).encode().hex() for n in numbers],
                "oov": oov,
                "asked": [str(n).encode().hex() for n in asked],
                "ids": ids,
            }
        )
    return cases


def buckets():
    x = [-1.0, 0.0, 17.999, 18.0, 18.001, 29.5, 30.0, 49.0, 50.0, 51.0, math.inf, -math.inf, math.nan]
    ids = tf.raw_ops.Bucketize(input=tf.constant(x, tf.float32), boundaries=[18.0, 30.0, 50.0]).numpy().tolist()
    return [{"x": [repr(v) for v in x], "boundaries": [18.0, 30.0, 50.0], "ids": ids}]


def multi_hot():
    ids = [[0, 3], [1, 1], [4, 2]]
    layer = tf.keras.layers.CategoryEncoding(num_tokens=5, output_mode="multi_hot")
    return [{"ids": ids, "depth": 5, "hot": layer(np.array(ids)).numpy().tolist()}]


def standardized():
    draws = np.random.default_rng(20)
    x = (draws.normal(size=(37, 3)) * [1.0, 50.0, 1e-3] + [0.0, 1000.0, 5.0]).astype(np.float32)
    layer = tf.keras.layers.Normalization(axis=-1)
    layer.adapt(x)
    mean, variance = tf.nn.moments(tf.constant(x, tf.float64), axes=[0])
    return [
        {
            "x": x.astype(float).tolist(),
            "mean": mean.numpy().tolist(),
            "variance": variance.numpy().tolist(),
            "standardized": layer(x).numpy().astype(float).tolist(),
        }
    ]


def parts():
    lines = [
        b"the quick  brown\tfox",
        b"  leading and trailing  ",
        b"",
        b" \n\r\x0b\x0c\t ",
        "Zürich – naïve 你好 😀".encode(),
        b"no-break\xc2\xa0space",
        b"broken \xff\xfe bytes \xe4\xbd end \xf0\x9f\x98",
    ]
    return [
        {
            "text": line.hex(),
            "words": [w.hex() for w in tf.strings.split([line])[0].numpy().tolist()],
            "characters": [c.hex() for c in tf.strings.unicode_split([line], "UTF-8")[0].numpy().tolist()],
            "bytes": tf.io.decode_raw(line, tf.uint8).numpy().tolist(),
        }
        for line in lines
    ]


cases = {
    "hash": hashed(texts()),
    "crossed": crossed(),
    "vocabulary": vocabularies(),
    "bucketize": buckets(),
    "multi_hot": multi_hot(),
    "standardize": standardized(),
    "split": parts(),
}
with open(sys.argv[1], "w") as out:
    out.write('{"format": 1, "tensorflow": "%s",\n' % tf.__version__)
    out.write(",\n".join(f'"{kind}": [\n' + ",\n".join(json.dumps(c) for c in found) + "\n]" for kind, found in cases.items()))
    out.write("}\n")
