"""What TensorFlow's sessions take for a step of `linreg`: a callable, `Session.run`, and `MonitoredTrainingSession` without a hook that is due.

    tf/bin/python bench/monitored.py

Ours are those of `cargo run --release -p trainspec --example monitored_overhead`.
"""
import os, time
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
v1 = tf.compat.v1
v1.logging.set_verbosity(v1.logging.ERROR)

WINDOW, WINDOWS = 1_000, 10
with tf.Graph().as_default():
    step = v1.train.get_or_create_global_step()
    x, y = v1.placeholder('float32', [32, 10]), v1.placeholder('float32', [32, 1])
    w = v1.get_variable('w', [10, 1], use_resource=True)
    b = v1.get_variable('b', [1], use_resource=True)
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
    train = v1.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)
    feeds = {x: np.full((32, 10), 0.5, 'f'), y: np.ones((32, 1), 'f')}
    with v1.train.MonitoredTrainingSession(save_checkpoint_secs=None, save_summaries_steps=None, log_step_count_steps=None) as monitored:
        plain = monitored.raw_session() if hasattr(monitored, 'raw_session') else monitored._tf_sess()
        call = plain.make_callable(train, feed_list=list(feeds))
        kinds = {
            'callable': lambda: call(*feeds.values()),
            'Session.run': lambda: plain.run(train, feeds),
            'MonitoredTrainingSession': lambda: monitored.run(train, feeds),
        }
        best = dict.fromkeys(kinds, 9e9)
        for _ in range(WINDOWS):
            for kind, run in kinds.items():
                start = time.perf_counter()
                for _ in range(WINDOW):
                    run()
                best[kind] = min(best[kind], (time.perf_counter() - start) / WINDOW)
for kind, seconds in best.items():
    print(f'{kind:<26} {seconds * 1e6:8.1f} us/step')
