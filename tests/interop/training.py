"""TensorFlow and `trainspec run` train one model and go on from each other's checkpoints; TensorBoard reads what a run wrote.

    python tests/interop/training.py PATH/TO/trainspec

A perceptron with Adam and moving averages. Both start from a checkpoint that `trainspec` wrote, take the same batches, and must agree in
the names and values of every variable, slot, scalar and average; then both go on from a checkpoint that TensorFlow wrote. A run that was
killed and resumed is one curve in TensorBoard.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TRAINSPEC = os.path.abspath(sys.argv[1])
v1 = tf.compat.v1
v1.disable_v2_behavior()

BATCH, ROWS, FEATURES = 4, 40, 3
SPEC = """
spec both;

data points {
    source  csv("points.csv", header: true);
    feature a: f32;
    feature b: f32;
    feature c: f32;
    feature label: i64;
    map     x = stack([a, b, c]);
    repeat;
    batch   %d;
}

model (x: f32[batch, %d], label: i64[batch] in 0..2) {
    let h = x |> dense(8) |> tanh;
    let logits = dense(h, 2);
    loss   mean(sparse_softmax_cross_entropy(labels: label, logits: logits));
    metric accuracy = argmax(logits, axis: 1) == label;
}

train {
    data      points;
    schedule  lr = exponential_decay(0.05, decay_steps: 4, decay_rate: 0.9);
    optimizer adam(learning_rate: lr);
    ema       (decay: 0.9, num_updates: step);
    steps     STEPS;
}

const STEPS = 5;

hooks {
    checkpoint (dir: "run", every: 5 steps, keep: 100);
    summary    (every: 1 steps) { scalar [loss, accuracy, lr]; histogram "**/kernel"; }
}
""" % (BATCH, FEATURES)


def run(work, folder, steps, *more):
    command = [TRAINSPEC, "run", os.path.join(work, "both.trainspec"), "--set", f"STEPS={steps}", "--dir", folder, *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


class Model:
    """The model of the spec, built by hand."""

    def __init__(self):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = v1.placeholder(tf.float32, [None, FEATURES])
            self.label = v1.placeholder(tf.int64, [None])
            step = v1.train.create_global_step()

            def dense(scope, x, units):
                with v1.variable_scope(scope):
                    kernel = v1.get_variable("kernel", [x.shape[1], units], use_resource=False)
                    bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer(), use_resource=False)
                return tf.matmul(x, kernel) + bias

            h = tf.tanh(dense("dense", self.x, 8))
            logits = dense("dense_1", h, 2)
            loss = tf.reduce_mean(v1.nn.sparse_softmax_cross_entropy_with_logits(labels=self.label, logits=logits))
            rate = v1.train.exponential_decay(0.05, step, 4, 0.9)
            update = v1.train.AdamOptimizer(rate).minimize(loss, global_step=step)
            averages = v1.train.ExponentialMovingAverage(0.9, num_updates=step)
            with tf.control_dependencies([update]):
                self.step = averages.apply(v1.trainable_variables())
            self.saver = v1.train.Saver(max_to_keep=100)

    def go_on(self, checkpoint, batches, save_to):
        """Trains from a checkpoint on these batches, and saves."""
        rewrite = v1.ConfigProto()
        rewrite.graph_options.rewrite_options.disable_meta_optimizer = True
        with v1.Session(graph=self.graph, config=rewrite) as session:
            self.saver.restore(session, checkpoint)
            for x, label in batches:
                session.run(self.step, {self.x: x, self.label: label})
            with self.graph.as_default():
                return self.saver.save(session, save_to, global_step=session.run(v1.train.get_global_step()))


def tensors(checkpoint):
    reader = v1.train.NewCheckpointReader(checkpoint)
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if not name.startswith("_trainspec/")}


def compare(ours, theirs):
    ours, theirs = tensors(ours), tensors(theirs)
    assert sorted(ours) == sorted(theirs), (sorted(ours), sorted(theirs))
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype, name
        assert ours[name].shape == value.shape, name
        # Ten steps of f32 arithmetic in another order of sums.
        np.testing.assert_allclose(ours[name], value, rtol=2e-4, atol=2e-6, err_msg=name)
    return len(theirs)


def scalars(folder, tag):
    accumulator = EventAccumulator(folder, size_guidance={"scalars": 0})
    accumulator.Reload()
    return [(event.step, event.value) for event in accumulator.Scalars(tag)]


def main(work):
    random = np.random.default_rng(7)
    x = random.normal(size=(ROWS, FEATURES)).astype(np.float32)
    label = (x.sum(axis=1) > 0).astype(np.int64)
    with open(os.path.join(work, "points.csv"), "w", encoding="utf-8") as file:
        file.write("a,b,c,label\n")
        for row, target in zip(x, label):
            file.write(",".join(repr(float(v)) for v in row) + f",{target}\n")
    with open(os.path.join(work, "both.trainspec"), "w", encoding="utf-8") as file:
        file.write(SPEC)
    batches = [(x[i : i + BATCH], label[i : i + BATCH]) for i in range(0, ROWS, BATCH)]
    ours, theirs = os.path.join(work, "ours"), os.path.join(work, "theirs")
    os.makedirs(theirs)

    # Ours begins; TensorFlow and we go on from the checkpoint at step 5.
    run(work, ours, 5)
    model = Model()
    saved = model.go_on(os.path.join(ours, "model.ckpt-5"), batches[5:], os.path.join(theirs, "model.ckpt"))
    run(work, ours, 10)
    count = compare(os.path.join(ours, "model.ckpt-10"), saved)

    # We go on from TensorFlow's, which has no position of the input: it starts over, and that is said.
    adopted = os.path.join(work, "adopted")
    shutil.copytree(theirs, adopted)
    said = run(work, adopted, 15)
    assert "input starts over" in said, said
    again = model.go_on(saved, batches[:5], os.path.join(theirs, "again"))
    compare(os.path.join(adopted, "model.ckpt-15"), again)
    print(f"{count} variables, slots, scalars and averages agree after steps on either side")

    # TensorBoard: a run in two parts is one curve.
    losses = scalars(ours, "loss")
    assert [step for step, _ in losses] == list(range(1, 11)), losses
    straight = os.path.join(work, "straight")
    run(work, straight, 10)
    assert scalars(straight, "loss") == losses
    # So is one that was killed and resumed, without what the killed one wrote past its last checkpoint.
    killed = os.path.join(work, "killed")
    command = [TRAINSPEC, "run", os.path.join(work, "both.trainspec"), "--set", "STEPS=1000000", "--dir", killed]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(os.path.join(killed, "checkpoint")):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    reached = int(tf.train.latest_checkpoint(killed).rsplit("-", 1)[1])
    run(work, killed, reached + 20)
    steps = [step for step, _ in scalars(killed, "loss")]
    assert steps == list(range(1, reached + 21)), (reached, steps[:5], steps[-5:], len(steps))
    accumulator = EventAccumulator(killed)
    accumulator.Reload()
    assert set(accumulator.Tags()["histograms"]) == {"dense/kernel", "dense_1/kernel"}
    print(f"TensorBoard shows one curve of {len(steps)} steps, killed and resumed at step {reached}")


with tempfile.TemporaryDirectory() as folder:
    main(folder)
