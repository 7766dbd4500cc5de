"""TensorFlow reads the checkpoints that `write_checkpoints` writes, value for value.

    cargo run -p trainspec-formats --example write_checkpoints FOLDER
    python tests/interop/checkpoints.py FOLDER

Needs TensorFlow and NumPy; `safetensors` is used if it is there.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

FOLDER = sys.argv[1]
v1 = tf.compat.v1
checked = 0


def path(*parts):
    return os.path.join(FOLDER, *parts)


def filled(dtype, shape):
    """What `filled` of the example makes."""
    dtype = tf.as_dtype(dtype)
    kind = dtype.as_numpy_dtype
    count = int(np.prod(shape))
    size = count * np.dtype(kind).itemsize
    i = np.arange(size)
    if dtype.name in ("bool", "int2", "uint2"):
        data = i % 2
    elif dtype.name in ("int4", "uint4", "float4_e2m1fn"):
        data = i % 8
    else:
        data = i * 37 + 11
    return np.frombuffer(data.astype(np.uint8).tobytes(), kind).reshape(shape)


def same(found, expected, what):
    global checked
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, (what, found.shape, expected.shape)
    if expected.dtype == object or expected.dtype.kind == "S":
        assert found.tolist() == expected.tolist(), what
    else:
        assert found.dtype == expected.dtype, (what, found.dtype, expected.dtype)
        assert found.tobytes() == expected.tobytes(), (what, found, expected)
    checked += 1


def restored(prefix, name, dtype, shape_and_slice=""):
    """What the operation that restores makes of it."""
    result = tf.raw_ops.RestoreV2(
        prefix=prefix, tensor_names=[name], shape_and_slices=[shape_and_slice], dtypes=[dtype]
    )
    return result[0].numpy()


TEXTS = np.array([b"", b"text\0\xff", b"x" * 70000], dtype=object)


def every_type():
    prefix = path("types", "model.ckpt-7")
    assert v1.train.checkpoint_exists(prefix)
    assert tf.train.latest_checkpoint(path("types")) == prefix
    state = tf.train.get_checkpoint_state(path("types"))
    assert list(state.all_model_checkpoint_paths) == [path("types", 'model.ckpt-3 "quoted" é'), prefix]
    assert list(state.all_model_checkpoint_timestamps) == [1.5, 1700000000.123456]
    assert state.last_preserved_timestamp == 1e-7
    reader = tf.train.load_checkpoint(path("types"))
    types = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map()
    assert len(types) == 35, sorted(types)
    for name, dtype in types.items():
        if name == "t/string":
            same(reader.get_tensor(name), TEXTS, name)
            same(restored(prefix, name, dtype), TEXTS, name)
        elif name == "t/no_string":
            assert shapes[name] == [0, 2]
            assert reader.get_tensor(name).shape == (0, 2)
        elif name == "t/scalar":
            same(reader.get_tensor(name), np.float32(1.5), name)
        else:
            expected = filled(dtype, shapes[name])
            # NumPy has no quantized types, so that of those only the bytes can be compared.
            if not dtype.name.startswith(("qint", "quint")):
                same(restored(prefix, name, dtype), expected, name)
            assert np.asarray(reader.get_tensor(name)).tobytes() == expected.tobytes(), name


def sharded():
    prefix = path("sharded", "model.ckpt")
    assert sorted(os.listdir(path("sharded"))) == [
        "model.ckpt.data-00000-of-00003",
        "model.ckpt.data-00001-of-00003",
        "model.ckpt.data-00002-of-00003",
        "model.ckpt.index",
    ]
    for i in range(7):
        same(tf.train.load_variable(prefix, f"v{i}"), filled(tf.float32, [i + 1, 3]), i)


def parts():
    rows = np.concatenate([filled(tf.float32, [3, 5]), filled(tf.float32, [4, 5])], 0)
    columns = np.concatenate([filled(tf.float32, [7, 2]), filled(tf.float32, [7, 3])], 1)
    return rows, columns


def partitioned():
    prefix = path("partitioned", "model.ckpt")
    rows, columns = parts()
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_variable_to_shape_map() == {"by_rows": [7, 5], "by_columns": [7, 5]}
    same(reader.get_tensor("by_rows"), rows, "rows")
    same(reader.get_tensor("by_columns"), columns, "columns")
    same(restored(prefix, "by_rows", tf.float32, "7 5 2,2:-"), rows[2:4], "some rows")
    same(restored(prefix, "by_columns", tf.float32, "7 5 0,7:1,3"), columns[:, 1:4], "some columns")


def merged():
    prefix = path("merged", "model.ckpt")
    same(tf.train.load_variable(prefix, "by_rows"), parts()[0], "merged rows")
    for i in range(2):
        same(tf.train.load_variable(prefix, f"v{i}"), np.int64(i), f"merged {i}")


def replaced():
    prefix = path("replaced", "model.ckpt")
    same(tf.train.load_variable(prefix, "v"), np.float32(2), "replaced")
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", [])
        v1.train.Saver().restore(session, prefix)
        same(session.run(variable), np.float32(2), "replaced, by a Saver")
    v1.train.remove_checkpoint(prefix)
    assert os.listdir(path("replaced")) == []


def first_version():
    prefix = path("v1", "model.ckpt")
    reader = v1.train.NewCheckpointReader(prefix)
    types = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map()
    assert len(types) == 19, sorted(types)

    def restore(name, dtype, shape_and_slice="", pattern=prefix):
        # The operation of the first version is only there for some types.
        with tf.Graph().as_default(), v1.Session() as session:
            op = tf.raw_ops.RestoreSlice(
                file_pattern=pattern, tensor_name=name, shape_and_slice=shape_and_slice, dt=dtype
            )
            return session.run(op)

    for name, dtype in types.items():
        if name in ("by_rows", "by_columns"):
            continue
        if name == "t/string":
            expected = TEXTS
        elif name == "t/scalar":
            expected = np.float32(1.5)
        else:
            expected = filled(dtype, shapes[name])
        found = restore(name, dtype)
        if dtype.name.startswith(("qint", "quint")):
            assert np.asarray(found).tobytes() == expected.tobytes(), name
            continue
        same(found, expected, name)
    rows, columns = parts()
    same(restore("by_rows", tf.float32), rows, "rows, first version")
    same(restore("by_columns", tf.float32), columns, "columns, first version")
    same(restore("by_rows", tf.float32, "7 5 2,2:-"), rows[2:4], "some rows, first version")
    pattern = path("v1", "sharded.ckpt-?????-of-00002")
    same(restore("by_rows", tf.float32, "", pattern), rows, "files of the first version")
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("t/float32", [2, 3])
        v1.train.Saver().restore(session, prefix)
        same(session.run(variable), filled(tf.float32, [2, 3]), "first version, by a Saver")


def objects():
    prefix = path("object", "ckpt-1")

    def value(first):
        return np.array([first, first + 0.5, first + 1], np.float32)

    named = {"with/slash.and.dots": tf.Variable(tf.zeros(3)), "w": tf.Variable(tf.zeros(3))}
    # A dictionary has names that an attribute cannot have.
    checkpoint = tf.train.Checkpoint(
        model=named,
        layers=[tf.Variable(tf.zeros(3)), tf.Variable(tf.zeros(3))],
        step=tf.Variable(0, dtype=tf.int64),
    )
    status = checkpoint.restore(prefix)
    status.assert_existing_objects_matched()
    status.expect_partial()
    same(named["w"].numpy(), value(1), "w")
    same(named["with/slash.and.dots"].numpy(), value(2), "b")
    same(checkpoint.layers[0].numpy(), value(3), "l0")
    same(checkpoint.layers[1].numpy(), value(4), "l1")
    same(checkpoint.step.numpy(), np.int64(9), "step")
    same(checkpoint.save_counter.numpy(), np.int64(1), "save_counter")

    # With the optimizer, everything in the checkpoint is used.
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=np.zeros(3, np.float32), use_resource=True)
        b = v1.get_variable("b", initializer=np.zeros(3, np.float32), use_resource=True)
        layers = [
            v1.get_variable(f"l{i}", initializer=np.zeros(3, np.float32), use_resource=True) for i in range(2)
        ]
        step = v1.get_variable("step", initializer=np.int64(0), use_resource=True)
        optimizer = v1.train.AdamOptimizer()
        optimizer.minimize(tf.reduce_sum(w * w), var_list=[w])
        checkpoint = tf.train.Checkpoint(
            model={"w": w, "with/slash.and.dots": b}, layers=layers, optimizer=optimizer, step=step
        )
        status = checkpoint.restore(prefix)
        status.assert_consumed()
        status.initialize_or_restore(session)
        same(session.run(w), value(1), "w in a graph")
        same(session.run(optimizer.get_slot(w, "m")), value(5), "m")
        same(session.run(optimizer.get_slot(w, "v")), value(6), "v")
        powers = session.run(optimizer._get_beta_accumulators())
        assert powers == (np.float32(0.25), np.float32(0.75)), powers
        same(session.run(step), np.int64(9), "step in a graph")

    # By their names in a graph, as a Saver would ask for them.
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", [3])
        slot = v1.get_variable("w/Adam", [3])
        v1.train.Saver([w, slot]).restore(session, prefix)
        same(session.run(w), value(1), "w by name")
        same(session.run(slot), value(5), "slot by name")


def many():
    reader = tf.train.load_checkpoint(path("many", "model.ckpt"))
    assert len(reader.get_variable_to_shape_map()) == 20000
    for i in range(0, 20000, 371):
        name = f"scope_{i // 100:03}/layer_{i:05}/kernel"
        same(reader.get_tensor(name), np.int32(i), name)
    # The same tensors, written by TensorFlow, make the same index.
    names = [f"scope_{i // 100:03}/layer_{i:05}/kernel" for i in range(20000)]
    theirs = path("many", "theirs")
    tf.raw_ops.SaveV2(
        prefix=theirs,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[np.int32(i) for i in range(20000)],
    )
    for suffix in (".index", ".data-00000-of-00001"):
        ours = open(path("many", "model.ckpt") + suffix, "rb").read()
        assert ours == open(theirs + suffix, "rb").read(), suffix
        os.remove(theirs + suffix)


def archives():
    for name in ("stored.npz", "deflated.npz"):
        with np.load(path("archives", name)) as archive:
            assert len(archive.files) == 13
            for key in archive.files:
                same(archive[key], filled(key[2:], [2, 3]), key)
    same(np.load(path("archives", "one.npy")), filled(tf.float32, [2, 3]), "npy")
    try:
        from safetensors.numpy import load_file
    except ImportError:
        print("safetensors is not installed: its file was not read")
        return
    found = load_file(path("archives", "a.safetensors"))
    for key, value in found.items():
        same(value, filled(key[2:], [2, 3]), key)


for check in (every_type, sharded, partitioned, merged, replaced, first_version, objects, many, archives):
    check()
    print("ok", check.__name__)
print(checked, "values compared")
