"""What TensorFlow and TensorBoard make of the event files that `write_events` writes.

    cargo run -p trainspec-formats --example write_events -- DIR [FILE.meta | EVENTS ...]
    python tests/interop/events.py DIR

Needs the packages tensorflow and tensorboard. Everything that is expected is made by TensorFlow from the same values.
"""

import glob
import json
import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from google.protobuf import unknown_fields
from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.backend.event_processing import plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups

v1 = tf.compat.v1
checks = 0


def check(condition, *what):
    global checks
    checks += 1
    assert condition, what


def event_files(folder):
    return sorted(glob.glob(os.path.join(folder, "*tfevents*")))


def events(folder):
    return [event for path in event_files(folder) for event in v1.train.summary_iterator(path)]


def values(folder, step):
    """The values of a step by tag."""
    found = {}
    for event in events(folder):
        if event.step == step:
            found.update({value.tag: value for value in event.summary.value})
    return found


def assert_same_value(ours, theirs):
    """Equal messages, except that images need only have equal pixels."""
    ours_copy, theirs_copy = type(ours)(), type(theirs)()
    ours_copy.CopyFrom(ours)
    theirs_copy.CopyFrom(theirs)
    pngs = []
    if theirs.WhichOneof("value") == "image":
        pngs.append((ours.image.encoded_image_string, theirs.image.encoded_image_string))
        ours_copy.image.ClearField("encoded_image_string")
        theirs_copy.image.ClearField("encoded_image_string")
    if theirs.metadata.plugin_data.plugin_name == "images":
        check(len(ours.tensor.string_val) == len(theirs.tensor.string_val), ours.tag)
        pngs += zip(ours.tensor.string_val[2:], theirs.tensor.string_val[2:])
        del ours_copy.tensor.string_val[2:]
        del theirs_copy.tensor.string_val[2:]
    check(ours_copy.SerializeToString(deterministic=True) == theirs_copy.SerializeToString(deterministic=True), ours_copy, theirs_copy)
    for our_png, their_png in pngs:
        check(np.array_equal(tf.io.decode_png(our_png), tf.io.decode_png(their_png)), ours.tag)


def plain(folder, data):
    theirs = {}
    with tf.Graph().as_default(), v1.Session() as session:
        summary = v1.summary
        made = [
            summary.histogram("values", tf.constant(data["floats"], tf.float64)),
            summary.image("pic", data["pixels"]),
            summary.audio("sound", data["samples"], 8000.0),
            summary.text("note", tf.constant(["one", "zwölf"])),
        ]
        for one in session.run(made):
            theirs.update({value.tag: value for value in v1.Summary.FromString(one).value})
    ours = values(folder, 7)
    check(set(ours) == set(theirs), set(ours) ^ set(theirs))
    for tag in theirs:
        assert_same_value(ours[tag], theirs[tag])

    first = events(folder)[0]
    check(first.file_version == "brain.Event:2")
    check(first.source_metadata.writer == "tensorflow.core.util.events_writer")

    board = event_accumulator.EventAccumulator(folder, {name: 0 for name in event_accumulator.DEFAULT_SIZE_GUIDANCE})
    board.Reload()
    tags = board.Tags()
    check(tags["scalars"] == ["train/loss"], tags)
    check(tags["histograms"] == ["values"], tags)
    check(sorted(tags["images"]) == ["pic/image/0", "pic/image/1"], tags)
    check(sorted(tags["audio"]) == ["sound/audio/0", "sound/audio/1"], tags)
    check(tags["tensors"] == ["note"], tags)
    check(tags["run_metadata"] == ["step_7"], tags)
    check(tags["graph"] and tags["meta_graph"], tags)
    for step, scalar in enumerate(board.Scalars("train/loss")):
        check((scalar.step, scalar.value) == (step, np.float32(1.0) / np.float32(step + 1)), scalar)
        check(scalar.wall_time == 1_700_000_000.25)
    check([(node.name, node.op) for node in board.Graph().node] == [("x", "Placeholder"), ("y", "Square")])
    check(board.MetaGraph().graph_def == board.Graph())
    check(board.RunMetadata("step_7").step_stats.dev_stats[0].node_stats[0].all_end_rel_micros == 12)
    check(list(board.Histograms("values")[0].histogram_value.bucket) == list(theirs["values"].histo.bucket))
    check(board.Audio("sound/audio/0")[0].encoded_audio_string == theirs["sound/audio/0"].audio.encoded_audio_string)
    check([bytes(s) for s in board.Tensors("note")[0].tensor_proto.string_val] == [b"one", "zwölf".encode()])
    # The graph is one that TensorFlow can run.
    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(v1.GraphDef.FromString(board.Graph().SerializeToString()), name="")
        check(session.run("y:0", {"x:0": 3.0}) == 9.0)


def tensors(folder, data):
    with tempfile.TemporaryDirectory() as other:
        with tf.summary.create_file_writer(other).as_default():
            for step in range(5):
                tf.summary.scalar("train/loss", 1 / (step + 1), step=step, description="the *loss*")
            tf.summary.histogram("values", tf.constant(data["floats"], tf.float64), step=7)
            tf.summary.image("pic", data["pixels"], step=7)
            tf.summary.audio("sound", data["samples"], 8000, step=7)
            tf.summary.text("note", ["one", "zwölf"], step=7)
        ours, theirs = values(folder, 7), values(other, 7)
        check(set(ours) == set(theirs), set(ours) ^ set(theirs))
        for tag in theirs:
            assert_same_value(ours[tag], theirs[tag])
        # Of the scalars only the first has metadata, as with the writer of TensorFlow 1.
        for step in range(5):
            expected = values(other, step)["train/loss"]
            if step > 0:
                expected.ClearField("metadata")
            assert_same_value(values(folder, step)["train/loss"], expected)

    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRun(folder, "run")
    multiplexer.Reload()
    plugins = {"train/loss": "scalars", "values": "histograms", "pic": "images", "sound": "audio", "note": "text"}
    for tag, plugin in plugins.items():
        check(multiplexer.SummaryMetadata("run", tag).plugin_data.plugin_name == plugin, tag)
    check(multiplexer.SummaryMetadata("run", "train/loss").summary_description == "the *loss*")
    losses = [tf.make_ndarray(event.tensor_proto).item() for event in multiplexer.Tensors("run", "train/loss")]
    check(losses == [np.float32(1 / (step + 1)) for step in range(5)], losses)
    for tag in ["values", "pic", "sound", "note"]:
        check([event.step for event in multiplexer.Tensors("run", tag)] == [7], tag)


def hparams(folder):
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(folder)
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, folder)
    context = backend_context.Context(type("Tb", (), {"data_provider": provider})())
    request_context = RequestContext()
    experiment = get_experiment.Handler(request_context, context, "", api_pb2.GetExperimentRequest(include_metrics=True)).run()
    names = {info.name: info.type for info in experiment.hparam_infos}
    check(names == {"lr": api_pb2.DATA_TYPE_FLOAT64, "optimizer": api_pb2.DATA_TYPE_STRING, "warm": api_pb2.DATA_TYPE_BOOL}, names)
    check([info.name.tag for info in experiment.metric_infos] == ["accuracy"])
    request = api_pb2.ListSessionGroupsRequest(
        allowed_statuses=[api_pb2.STATUS_SUCCESS], start_index=0, slice_size=10,
        col_params=[api_pb2.ColParams(hparam=name) for name in names] + [api_pb2.ColParams(metric=api_pb2.MetricName(tag="accuracy"))],
    )
    groups = list_session_groups.Handler(request_context, context, "", request).run().session_groups
    rows = sorted((group.sessions[0].name, group.hparams["lr"].number_value, group.hparams["optimizer"].string_value,
                   group.hparams["warm"].bool_value, group.metric_values[0].value) for group in groups)
    nine = float(np.float32(0.9))
    check(rows == [("a", 0.1, "adam", True, nine), ("b", 0.01, "adam", True, nine)], rows)
    check([group.sessions[0].end_time_secs for group in groups] == [1.7e9 + 60] * 2)


def restarted(folder):
    check(len(event_files(folder)) == 2, event_files(folder))
    board = event_accumulator.EventAccumulator(folder, {"scalars": 0})
    board.Reload()
    points = [(scalar.step, scalar.value) for scalar in board.Scalars("loss")]
    check(points == [(s, float(s)) for s in range(5)] + [(s, 500.0 + s) for s in range(5, 12)], points)


def loader(folder):
    """The loaders of TensorBoard read every file to its end, with checksums."""
    files = glob.glob(os.path.join(folder, "**", "*tfevents*"), recursive=True)
    count = 0
    for path in files:
        raw = list(event_file_loader.RawEventFileLoader(path).Load())
        check(len(raw) == len(list(v1.train.summary_iterator(path))), path)
        count += len(raw)
    return len(files), count


def has_unknown(message):
    if len(unknown_fields.UnknownFieldSet(message)):
        return True
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                if any(has_unknown(inner) for inner in value.values()):
                    return True
        elif field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED:
            if any(has_unknown(inner) for inner in value):
                return True
        elif has_unknown(value):
            return True
    return False


def copies(folder):
    count = 0
    for path in glob.glob(os.path.join(folder, "*.from")):
        messages = []
        for name in [path, path[: -len("from")] + "to"]:
            with open(name, "rb") as file:
                messages.append(v1.MetaGraphDef.FromString(file.read()))
        check(messages[0] == messages[1], path)
        check(not has_unknown(messages[0]) and not has_unknown(messages[1]), path)
        count += 1
    return count


def stripping():
    """TensorFlow's writer never writes metadata of a tag that came without them."""
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        writer = v1.summary.FileWriter(folder)
        for step in range(2):
            value = v1.Summary.Value(tag="a", simple_value=1.0)
            if step == 1:
                value.metadata.display_name = "late"
            writer.add_summary(v1.Summary(value=[value]), step)
        writer.close()
        written = [event.summary.value[0] for event in events(folder) if event.HasField("summary")]
        check([value.HasField("metadata") for value in written] == [False, False], written)


def main(folder):
    with open(os.path.join(folder, "values.json"), encoding="utf-8") as file:
        stored = json.load(file)
    data = {
        "floats": np.array(stored["floats"], np.float64),
        "pixels": np.array(stored["pixels"], np.float32).reshape(stored["pictures"]),
        "samples": np.array(stored["samples"], np.float32).reshape(stored["sounds"]),
    }
    plain(os.path.join(folder, "plain"), data)
    tensors(os.path.join(folder, "tensors"), data)
    hparams(os.path.join(folder, "hparams"))
    restarted(os.path.join(folder, "restarted"))
    files, count = loader(folder)
    graphs = copies(os.path.join(folder, "copies"))
    stripping()
    print(f"{checks} checks: {files} files, {count} events, {graphs} graphs")


if __name__ == "__main__":
    main(sys.argv[1])
