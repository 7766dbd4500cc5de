"""Files that TensorFlow, NumPy, safetensors and tensorboardX write here and now, and what `trainspec` says of them, bit by bit.

    python tests/interop/fresh_files.py TRAINSPEC [--seed N] [--count N] [--keep FOLDER]

TRAINSPEC is the command, or in the environment variable of this name. Everything is drawn from the seed; `--count` repeats all of it with
the seeds after it. `inspect`, `cat`, `diff`, `convert`, `recover` and `verify` read checkpoints (V1, V2, object-based), records (plain,
GZIP, ZLIB), event files, npz and safetensors with every dtype; what `convert` and `recover` write is read by the libraries again. A
`.pt` file is made with PyTorch where it is installed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
import tensorboardX
import tensorflow as tf

v1 = tf.compat.v1
v1.logging.set_verbosity(v1.logging.ERROR)
# NaN and infinities are cast on purpose.
np.seterr(all="ignore")
checked = 0

NARROW = [
    "float16",
    "bfloat16",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e5m2fnuz",
]
FLOATS = ["float32", "float64", *NARROW]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
TYPES = [*FLOATS, *INTEGERS, "int4", "uint4", "bool", "complex64", "complex128", "string"]
NUMPY_TYPES = ["float16", "float32", "float64", *INTEGERS, "bool", "complex64", "complex128"]
# What the operation `Save` of the first version has kernels for.
V1_TYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "string"]
SAFETENSORS_TYPES = [name for name in NUMPY_TYPES if name != "complex128"]
SAFETENSORS_TYPES += ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"]


def numpy_type(name):
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def filled(rng, name, shape):
    """Random bits of a dtype, every special value among them if there is space."""
    count = int(np.prod(shape))
    if name == "string":
        special = [b"", b"\0", b"\xff\xfe", "\u007f\u009b é".encode(), b'quo"te,\r\n\x1b[31m', b"x" * 5000]
        strings = [special[i] if i < len(special) else rng.bytes(int(rng.integers(0, 30))) for i in range(count)]
        return np.array(strings, dtype=object).reshape(shape)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if name in ("int4", "uint4"):
        low = -8 if name == "int4" else 0
        return rng.integers(low, low + 16, shape).astype(numpy_type(name))
    dtype = numpy_type(name)
    values = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()
    if name in FLOATS:
        about = ml_dtypes.finfo(dtype)
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 0.1, about.max, about.min, about.tiny, about.smallest_subnormal]
    elif name.startswith("complex"):
        part = np.finfo(dtype)
        special = [complex(np.nan, 1), complex(0.1, -np.inf), complex(-0.0, 0.0), part.max, part.smallest_subnormal]
    else:
        about = np.iinfo(dtype)
        special = [about.min, about.max, 0]
    special = special[:count]
    values[: len(special)] = np.array(special).astype(dtype)
    if name == "complex64":
        # TensorFlow makes a NaN of these quiet when it writes the first version.
        parts = values.view(np.float32)
        parts.view(np.uint32)[np.isnan(parts)] |= 1 << 22
    return values.reshape(shape)


def some_shape(rng):
    return [[], [0], [1], [17], [3, 5], [2, 1, 4], [3, 0, 2], [1500]][rng.integers(0, 8)]


def tensors_of(rng, types):
    """One tensor of every type with all special values, and one of a random shape."""
    tensors = {}
    for name in types:
        tensors[f"t/{name}"] = filled(rng, name, [4, 5])
        tensors[f"any/{name}"] = filled(rng, name, some_shape(rng))
    return tensors


class Command:
    def __init__(self, path):
        self.path = path

    def run(self, code, *arguments):
        """Standard output of the command, which must exit with the code."""
        done = subprocess.run([self.path, *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL)
        if done.returncode != code:
            sys.exit(f"{arguments}: exit code {done.returncode} instead of {code}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout

    def json(self, code, *arguments):
        return [json.loads(line) for line in self.run(code, *arguments, "--format", "json").splitlines()]


def require(condition, *what):
    global checked
    checked += 1
    if not condition:
        sys.exit(": ".join(map(str, what)))


def real(value):
    return {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}.get(value, value) if isinstance(value, str) else value


def string(value):
    return value.encode() if isinstance(value, str) else bytes.fromhex(value["hex"])


def same_floats(found, expected, what):
    """Equal bits, but for the payload of NaN."""
    found, expected = np.asarray(found), np.asarray(expected)
    require(found.shape == expected.shape and found.dtype == expected.dtype, what, found.dtype, expected.dtype)
    nan = np.isnan(expected)
    require(np.array_equal(np.isnan(found), nan), what, found, expected)
    require(found[~nan].tobytes() == expected[~nan].tobytes(), what, found, expected)


def same_values(found, expected, what):
    """The elements that JSON has, against an array."""
    flat, name = expected.ravel(), expected.dtype.name
    require(len(found) == flat.size, what, len(found), flat.size)
    if expected.dtype.kind in "OSU":
        strings = [s.encode() if isinstance(s, str) else bytes(s) for s in flat]
        require([string(value) for value in found] == strings, what, found)
    elif name.startswith("complex"):
        part = np.float32 if name == "complex64" else np.float64
        pairs = np.array([[real(a), real(b)] for a, b in found], np.float64).reshape(-1, 2)
        same_floats(pairs.astype(part).ravel(), flat.view(part), what)
    elif name == "float32":
        # Their digits identify a float32, those of all other floats the exact value.
        same_floats(np.array([real(x) for x in found], np.float64).astype(np.float32), flat, what)
    elif name in FLOATS:
        same_floats(np.array([real(x) for x in found], np.float64), flat.astype(np.float64), what)
    else:
        require(found == [x.item() if name in NUMPY_TYPES else int(x) for x in flat], what, found, flat)


def same_arrays(found, expected, what):
    """Equal types and bits, payloads of NaN too."""
    found, expected = np.asarray(found), np.asarray(expected)
    require(found.shape == expected.shape, what, found.shape, expected.shape)
    if expected.dtype == object:
        require([bytes(s) for s in found.ravel()] == [bytes(s) for s in expected.ravel()], what)
    else:
        require(found.dtype == expected.dtype, what, found.dtype, expected.dtype)
        require(np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(expected).tobytes(), what, found, expected)


def same_statistics(tensor, expected, what):
    if expected.size == 0 or expected.dtype == object or expected.dtype.kind in "SU":
        require("min" not in tensor and "nan" not in tensor, what, tensor)
        return
    if expected.dtype.kind == "c":
        require("min" not in tensor and tensor["nan"] == int(np.isnan(expected).sum()), what, tensor)
        return
    if expected.dtype.name not in FLOATS:
        require((tensor["min"], tensor["max"]) == (int(expected.min()), int(expected.max())), what, tensor)
        return
    wide = expected.astype(np.float64).ravel()
    numbers = wide[~np.isnan(wide)]
    require(tensor["nan"] == wide.size - numbers.size, what, tensor)
    require(tensor["infinite"] == int(np.isinf(wide).sum()), what, tensor)
    if numbers.size:
        require((real(tensor["min"]), real(tensor["max"])) == (numbers.min(), numbers.max()), what, tensor)


def read_by_command(trainspec, path, tensors, kind):
    """`inspect`, `verify`, `cat` and `diff` of an intact file of tensors."""
    (shown,) = trainspec.json(0, "inspect", path)
    require(shown["kind"] == kind and "not_read" not in shown, path, shown["kind"])
    found = {tensor["name"]: tensor for tensor in shown["tensors"]}
    require(set(found) == set(tensors), path, set(found) ^ set(tensors))
    for name, expected in tensors.items():
        dtype = "string" if expected.dtype.kind in "OSU" else expected.dtype.name
        require(found[name]["dtype"] == dtype and found[name]["shape"] == list(expected.shape), path, found[name])
        same_statistics(found[name], expected, f"{path} {name}")
        (values,) = trainspec.json(0, "cat", path, name)
        same_values(values["values"], expected, f"{path} {name}")
    (verified,) = trainspec.json(0, "verify", path)
    require(verified["damage"] == [] and verified["kind"] == kind, path, verified)
    (difference,) = trainspec.json(0, "diff", path, path)
    require(difference["equal"] and difference["tensors"] == len(tensors), path, difference)


def csv_and_npy(trainspec, path, name, expected, folder):
    """The other forms of `cat`."""
    rows = trainspec.run(0, "cat", path, name, "--as", "csv").decode().splitlines()
    fields = [float(field) for row in rows for field in row.split(",")]
    wide = expected.astype(np.float64).ravel()
    narrowed = np.array(fields)
    if expected.dtype.name == "float32":
        narrowed = narrowed.astype(np.float32).astype(np.float64)
    same_floats(narrowed, wide, f"{path} {name}")
    if expected.dtype.name in NUMPY_TYPES:
        npy = os.path.join(folder, "one.npy")
        trainspec.run(0, "cat", path, name, "--output", npy, "--force")
        same_arrays(np.load(npy), expected, f"{npy} {name}")


def load_safetensors(path):
    with open(path, "rb") as file:
        entries = safetensors.deserialize(file.read())
    codes = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool", "C64": "complex64"}
    codes |= {"F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E4M3FNUZ": "float8_e4m3fnuz"}
    codes |= {f"{sign}{bits}": f"{'u' * (sign == 'U')}int{bits}" for sign in "IU" for bits in (8, 16, 32, 64)}
    arrays = {}
    for name, entry in entries:
        dtype = numpy_type(codes[entry["dtype"]])
        arrays[name] = np.frombuffer(bytes(entry["data"]), dtype).reshape(entry["shape"])
    return arrays


def load_v1(path):
    # The reader of Python does not know all types that the operation restores.
    types = v1.train.NewCheckpointReader(path).get_variable_to_dtype_map()
    with tf.Graph().as_default(), v1.Session() as session:
        ops = {
            name: tf.raw_ops.RestoreSlice(file_pattern=path, tensor_name=name, shape_and_slice="", dt=dtype)
            for name, dtype in types.items()
        }
        return session.run(ops)


def load_v2(path):
    reader = tf.train.load_checkpoint(path)
    return {name: np.asarray(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}


def load_npz(path):
    with np.load(path) as archive:
        return dict(archive.items())


def converted(trainspec, path, tensors, folder):
    """Every kind of file that `convert` writes, read by the library that it is for."""
    kinds = [("v2", load_v2, "copy.ckpt"), ("v1", load_v1, "copy.v1")]
    kinds += [("safetensors", load_safetensors, "copy.safetensors"), ("npz", load_npz, "copy.npz")]
    for kind, load, name in kinds:
        out = os.path.join(folder, name)
        done = trainspec.json(0, "convert", path, out, "--to", kind, "--skip-unsupported", "--force")[0]
        left = set(done["skipped"])
        found = load(out)
        require(set(found) == set(tensors) - left, out, set(found) ^ set(tensors), left)
        for name, array in found.items():
            expected = tensors[name]
            if kind == "npz" and expected.dtype == object:
                array = np.array([bytes(s) for s in array.ravel()], dtype=object).reshape(array.shape)
            same_arrays(array, expected, f"{path} as {kind}: {name}")
        # Whatever is left out is a difference, and nothing else is.
        difference = trainspec.json(1 if left else 0, "diff", path, out)[0]
        require({tensor["name"] for tensor in difference["only_in_a"]} == left, out, difference)
        require(not difference["differing"] and not difference["other_type"] and not difference["not_compared"], out, difference)
        if kind == "v2":
            require(not left, out, left)
    require(trainspec.json(0, "verify", os.path.join(folder, "copy.npz"))[0]["damage"] == [], "copy.npz")


def save_v2(prefix, tensors, slices=None):
    names = list(tensors)
    slices = slices or {}
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[slices.get(name, "") for name in names],
        tensors=[tf.convert_to_tensor(tensors[name]) for name in names],
    )


def checkpoints(trainspec, rng, folder):
    tensors = tensors_of(rng, TYPES)
    prefix = os.path.join(folder, "v2", "model.ckpt-7")
    os.makedirs(os.path.dirname(prefix))
    save_v2(prefix, tensors)
    read_by_command(trainspec, prefix, tensors, "checkpoint")
    for name in [*FLOATS, "int64", "uint8"]:
        csv_and_npy(trainspec, prefix, f"t/{name}", tensors[f"t/{name}"], folder)
    converted(trainspec, prefix, tensors, folder)

    # One element differs, in the last bit.
    other = {name: array.copy() for name, array in tensors.items()}
    chosen = f"t/{INTEGERS[rng.integers(0, len(INTEGERS))]}"
    at = (int(rng.integers(0, 4)), int(rng.integers(0, 5)))
    other[chosen][at] ^= 1
    save_v2(f"{prefix}b", other)
    difference = trainspec.json(1, "diff", prefix, f"{prefix}b")[0]
    (one,) = difference["differing"]
    require((one["name"], one["differing"], one["absolute"]["at"]) == (chosen, 1, list(at)), one)
    pair = [int(tensors[chosen][at]), int(other[chosen][at])]
    require([one["absolute"]["a"], one["absolute"]["b"]] == pair, one, pair)

    # A flipped bit of the data is found, and every other tensor is read all the same.
    data = f"{prefix}b.data-00000-of-00001"
    contents = bytearray(open(data, "rb").read())
    contents[rng.integers(0, len(contents))] ^= 1 << int(rng.integers(0, 8))
    open(data, "wb").write(contents)
    damage = trainspec.json(2, "verify", f"{prefix}b")[0]["damage"]
    require(len(damage) == 1, damage)
    difference = trainspec.json(2, "diff", prefix, f"{prefix}b")[0]
    require(not difference["equal"] and len(difference["not_compared"]) == 1, difference)

    # Partitioned, in three data files.
    rows, columns = filled(rng, "float32", [7, 5]), filled(rng, "bfloat16", [4, 6])
    parts = [
        ({"by_rows": rows[:3], "plain": np.int64(5)}, {"by_rows": "7 5 0,3:-"}),
        ({"by_rows": rows[3:], "by_columns": columns[:, :2]}, {"by_rows": "7 5 3,4:-", "by_columns": "4 6 -:0,2"}),
        ({"by_columns": columns[:, 2:]}, {"by_columns": "4 6 -:2,4"}),
    ]
    prefix = os.path.join(folder, "parts", "model.ckpt")
    os.makedirs(os.path.dirname(prefix))
    for i, (part, slices) in enumerate(parts):
        save_v2(f"{prefix}_part{i}", part, slices)
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[f"{prefix}_part{i}" for i in range(3)], destination_prefix=prefix, delete_old_dirs=False
    )
    expected = {"by_rows": rows, "by_columns": columns, "plain": np.array(5)}
    read_by_command(trainspec, prefix, expected, "checkpoint")

    # The first version, in one file and in shards.
    tensors = tensors_of(rng, V1_TYPES)
    path = os.path.join(folder, "v1", "model.ckpt")
    os.makedirs(os.path.dirname(path))
    with tf.Graph().as_default(), v1.Session() as session:
        data = [tf.constant(array) for array in tensors.values()]
        session.run(tf.raw_ops.Save(filename=path, tensor_names=list(tensors), data=data))
        for i, part in enumerate((rows[:3], rows[3:])):
            save = tf.raw_ops.SaveSlices(
                filename=f"{path}.parts-0000{i}-of-00002",
                tensor_names=["by_rows"],
                shapes_and_slices=[("7 5 0,3:-", "7 5 3,4:-")[i]],
                data=[tf.constant(part)],
            )
            session.run(save)
    read_by_command(trainspec, path, tensors, "checkpoint")
    converted(trainspec, path, tensors, folder)
    read_by_command(trainspec, f"{path}.parts@2", {"by_rows": rows}, "checkpoint")


def objects(trainspec, rng, folder):
    # TensorFlow has no variables of the other types.
    types = [name for name in TYPES if not name.startswith("float8")]
    arrays = {name: filled(rng, name, [3, 4]) for name in types}
    variables = {name: tf.Variable(tf.convert_to_tensor(array)) for name, array in arrays.items()}
    checkpoint = tf.train.Checkpoint(model=variables, step=tf.Variable(2**40, dtype=tf.int64))
    prefix = checkpoint.save(os.path.join(folder, "object", "ckpt"))
    (shown,) = trainspec.json(0, "inspect", os.path.dirname(prefix))
    require(shown["path"] == prefix and "of objects" in shown["about"], shown["about"])
    for name, array in arrays.items():
        (found,) = trainspec.json(0, "cat", prefix, f"model/{name}")
        same_values(found["values"], array, f"{prefix} {name}")
    (found,) = trainspec.json(0, "cat", prefix, "step")
    require(found["values"] == [2**40], found)
    copy = os.path.join(folder, "object", "copy")
    trainspec.run(0, "convert", prefix, copy)
    trainspec.run(0, "diff", prefix, copy)
    for name, variable in variables.items():
        other = np.roll(arrays[name].ravel(), 1).reshape(3, 4)
        variable.assign(tf.convert_to_tensor(other))
    checkpoint.restore(copy).assert_consumed()
    for name, array in arrays.items():
        same_arrays(variables[name].numpy(), array, f"restored {name}")


def archives(trainspec, rng, folder):
    tensors = tensors_of(rng, NUMPY_TYPES)
    tensors |= {
        "order/fortran": np.asfortranarray(filled(rng, "float64", [4, 5])),
        "order/big": filled(rng, "int32", [4, 5]).astype(">i4"),
        "strings": np.array([b"a", b"", b"\xff\x7f", b"long string"]),
        "unicode": np.array(["é", "", "\u007f\u009b"]),
    }
    for save, name in ((np.savez, "stored.npz"), (np.savez_compressed, "deflated.npz")):
        path = os.path.join(folder, name)
        save(path, **tensors)
        native = {name: array.astype(array.dtype.newbyteorder("=")) for name, array in tensors.items()}
        read_by_command(trainspec, path, native, "npz")

    tensors = tensors_of(rng, SAFETENSORS_TYPES)
    path = os.path.join(folder, "model.safetensors")
    with open(path, "wb") as file:
        file.write(safetensors.numpy.save(tensors, {"by": "\u007f hand"}))
    read_by_command(trainspec, path, tensors, "safetensors")
    converted(trainspec, path, tensors, folder)
    require(trainspec.json(0, "inspect", path)[0]["metadata"] == {"by": "\u007f hand"}, path)


def some_features(rng):
    """Features of an Example, as the message and as JSON has them."""
    features, expected = {}, {}
    for i in range(int(rng.integers(1, 6))):
        count = int(rng.integers(0, 5))
        name = ["plain", "käse", "del\u007f", "esc\u001b[0m", 'quo"te'][i]
        kind = int(rng.integers(0, 3))
        if kind == 0:
            values = [rng.bytes(int(rng.integers(0, 40))) for _ in range(count)] + ["\u007f\u009f".encode()]
            features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
            expected[name] = np.array([*values, None], dtype=object)[:-1]
        elif kind == 1:
            values = filled(rng, "float32", [count + 11])
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
            expected[name] = values
        else:
            values = filled(rng, "int64", [count])
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
            expected[name] = values
    return features, expected


def records(trainspec, rng, folder):
    for compression in ("", "GZIP", "ZLIB"):
        path = os.path.join(folder, f"examples-{compression or 'none'}.tfrecord")
        written, count = [], int(rng.integers(20, 60))
        with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression)) as writer:
            for _ in range(count):
                features, expected = some_features(rng)
                message = tf.train.Example(features=tf.train.Features(feature=features))
                written.append((message.SerializeToString(), expected))
                writer.write(written[-1][0])
        shown, *lines = trainspec.json(0, "inspect", path, "--records", count + 5)
        require(shown["records"] == count and shown["bytes"] == sum(len(r) for r, _ in written), path, shown)
        require(shown["compression"] == (compression or "not compressed"), path, shown)
        require(len(lines) == count, path, len(lines))
        for i, (line, (record, expected)) in enumerate(zip(lines, written)):
            require((line["kind"], line["record"], line["bytes"]) == ("record", i, len(record)), path, line)
            require(set(line["features"]) == set(expected), path, line)
            for name, values in expected.items():
                same_values(line["features"][name], values, f"{path} {i} {name}")
        require(trainspec.json(0, "verify", path)[0]["damage"] == [], path)

        # All of an intact file is saved; of a damaged one, what TensorFlow can read and what is after the damage.
        saved = os.path.join(folder, "saved.tfrecord")
        done = trainspec.json(0, "recover", path, saved, "--force", "--compression", (compression or "none").lower())[0]
        require(done["records"] == count and done["skipped"] == [], path, done)
        found = tf.data.TFRecordDataset(saved, compression_type=compression).as_numpy_iterator()
        require(list(found) == [record for record, _ in written], path)
        contents = bytearray(open(path, "rb").read())
        chosen = int(rng.integers(0, count))
        start = sum(len(record) + 16 for record, _ in written[:chosen])
        at = start + int(rng.integers(0, len(written[chosen][0]) + 16)) if not compression else int(rng.integers(10, len(contents) - 8))
        contents[at] ^= 1 << int(rng.integers(0, 8))
        open(path, "wb").write(contents)
        damage = trainspec.json(2, "verify", path)[0]["damage"]
        require(len(damage) == 1, path, damage)
        code = 0 if not compression else None
        if compression:
            # Nothing at all may be before the damage, which is a failure.
            code = 1 if damage[0]["offset"] == 0 else 0
        done = trainspec.json(code, "recover", path, saved, "--force")[0]
        require(len(done["skipped"]) == 1, path, done)
        found = [] if code else list(tf.data.TFRecordDataset(saved).as_numpy_iterator())
        if not compression:
            rest = [record for i, (record, _) in enumerate(written) if i != chosen]
            require(found == rest and done["skipped"][0]["from"] == start, path, done, start)
        else:
            require(found == [record for record, _ in written[: len(found)]], path, done)


def events(trainspec, rng, folder):
    scalars = filled(rng, "float32", [20])
    histogram = rng.normal(size=100)
    logs = os.path.join(folder, "logs", "tf2")
    with tf.summary.create_file_writer(logs).as_default():
        for step, value in enumerate(scalars):
            tf.summary.scalar("loss", value, step=step)
        tf.summary.histogram("h", histogram, step=3)
        tf.summary.histogram("nan", [1.0, np.nan], step=3)
        tf.summary.text("note", "del\u007f esc\u001b[0m", step=4)
        tf.summary.image("pic", rng.random((1, 3, 4, 3)), step=5)
    tags = {tag["tag"]: tag for tag in trainspec.json(0, "inspect", logs)[0]["tags"]}
    require(set(tags) == {"loss", "h", "nan", "note", "pic"}, tags)
    require((tags["loss"]["values"], tags["loss"]["last_step"]) == (20, 19), tags["loss"])
    same_floats(np.float64([real(tags["loss"]["last_value"])]), np.float64([scalars[-1]]), "loss")
    require(tags["h"]["last_value"]["count"] == 100, tags["h"])
    same_floats(np.float64([tags["h"]["last_value"][end] for end in ("min", "max")]), np.float64([histogram.min(), histogram.max()]), "h")
    require(tags["nan"]["last_value"]["min"] == "NaN", tags["nan"])
    require(tags["note"]["last_value"] == "del\u007f esc\u001b[0m", tags["note"])
    require(tags["pic"]["last_value"] == {"width": 4, "height": 3}, tags["pic"])

    logs = os.path.join(folder, "logs", "x")
    with tensorboardX.SummaryWriter(logs, write_to_disk=True) as writer:
        for step, value in enumerate(scalars):
            writer.add_scalar("loss", float(value), step)
        writer.add_histogram("h", histogram, 7)
        writer.add_text("note", "käse\u007f", 8)
    tags = {tag["tag"]: tag for tag in trainspec.json(0, "inspect", logs)[0]["tags"]}
    require({"loss", "h"} < set(tags), tags)
    same_floats(np.float64([real(tags["loss"]["last_value"])]), np.float64([scalars[-1]]), "loss, tensorboardX")
    require(tags["h"]["last_value"]["count"] == 100 and tags["h"]["last_step"] == 7, tags["h"])
    (note,) = (tag for name, tag in tags.items() if name.startswith("note"))
    require(note["last_value"] == "käse\u007f", note)

    verified = trainspec.json(0, "verify", os.path.join(folder, "logs"))
    require(len(verified) == 2 and all(one["damage"] == [] for one in verified), verified)


def foreign(trainspec, rng, folder):
    """Files of other programs are called by their names."""
    model = tf.keras.Sequential([tf.keras.Input([3]), tf.keras.layers.Dense(2)])
    names = {"model.keras": "a Keras model", "model.weights.h5": "an HDF5 file"}
    model.save(os.path.join(folder, "model.keras"))
    model.save_weights(os.path.join(folder, "model.weights.h5"))
    np.save(os.path.join(folder, "one.npy"), np.arange(3))
    names["one.npy"] = "a single NumPy array"
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: its files were not made")
    else:
        torch.save({"w": torch.zeros(3)}, os.path.join(folder, "torch.bin"))
        torch.save({"w": torch.zeros(3)}, os.path.join(folder, "old.pt"), _use_new_zipfile_serialization=False)
        names |= {"torch.bin": "a PyTorch checkpoint", "old.pt": "a Python pickle"}
    for name, expected in names.items():
        (error,) = trainspec.json(2, "inspect", os.path.join(folder, name))
        require(expected in error["message"], name, error)

    # A SavedModel is shown by its variables.
    module = tf.Module()
    module.w = tf.Variable(filled(rng, "float32", [4, 5]))
    saved = os.path.join(folder, "saved")
    tf.saved_model.save(module, saved)
    shown = [line for line in trainspec.json(0, "inspect", saved) if "kind" in line]
    require([line["path"] for line in shown] == [os.path.join(saved, "variables", "variables")], shown)
    (found,) = trainspec.json(0, "cat", saved, "w")
    same_values(found["values"], module.w.numpy(), saved)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trainspec", nargs="?", default=os.environ.get("TRAINSPEC"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--keep", help="a folder for the files of the last seed, which stay there")
    arguments = parser.parse_args()
    if not arguments.trainspec:
        parser.error("name the command `trainspec`")
    trainspec = Command(os.path.abspath(arguments.trainspec))
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        folder = arguments.keep or tempfile.mkdtemp(prefix="trainspec-fresh-")
        os.makedirs(folder, exist_ok=True)
        # On failure the folder stays, to be looked at.
        print("seed", seed, "in", folder, flush=True)
        for check in (checkpoints, objects, archives, records, events, foreign):
            inside = os.path.join(folder, check.__name__)
            shutil.rmtree(inside, ignore_errors=True)
            os.makedirs(inside)
            check(trainspec, np.random.default_rng([seed, sum(check.__name__.encode())]), inside)
            print("ok", check.__name__, flush=True)
        if not arguments.keep:
            shutil.rmtree(folder)
    print(checked, "comparisons")


main()
