"""Input pipelines beside tf.data, alternating: seconds of wall clock and of CPU for each, best of the rounds, and their ratios.

    tf/bin/python bench/input.py [--exe target/release/trainspec] [--rounds 3] [--folder DIR]

Makes its files once, in a folder of its own (400 MB), and needs TensorFlow. Workloads:

- tfrecord: 200,000 Examples (10 floats, an int64, 32 bytes), five times, parsed, one map, shuffled with a buffer of 10,000, in batches of 512
- csv: 500,000 lines of 8 floats and a label, shuffled with a buffer of 10,000, in batches of 512, beside `make_csv_dataset`
- ftrl, mlp: a training from files beside the same steps on data in memory, and beside decoding alone
- small: steps per second of a run of a model of four parameters from a csv file
"""
import argparse, json, os, resource, subprocess, sys, tempfile, time

parser = argparse.ArgumentParser()
parser.add_argument('--exe', default='target/release/trainspec')
parser.add_argument('--rounds', type=int, default=3)
parser.add_argument('--folder', default=os.path.join(tempfile.gettempdir(), 'trainspec-bench-input'))
parser.add_argument('workloads', nargs='*', default=['tfrecord', 'csv', 'ftrl', 'mlp', 'small'])
options = parser.parse_args()
EXE, FOLDER = os.path.abspath(options.exe), options.folder
SPECS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'examples', 'bench')
os.makedirs(FOLDER, exist_ok=True)

TFRECORD = '''spec tfrecord;
data examples {
    source  tfrecord([FILES]);
FEATURES
    feature label: i64;
    feature s: u8[32];
    map     f0 = f0 * 0.01;
    shuffle (buffer: 10_000, seed: 1);
    batch   512;
}
'''.replace('FEATURES', '\n'.join(f'    feature f{k}: f32;' for k in range(10))).replace('FILES', ', '.join(['"floats.tfrecord"'] * 5))

CSV = '''spec csv;
data lines {
    source  csv("numbers.csv", header: true);
FEATURES
    feature label: i64;
    shuffle (buffer: 10_000, seed: 1);
    batch   512;
}
'''.replace('FEATURES', '\n'.join(f'    feature f{k}: f32;' for k in range(8)))

SMALL = '''spec small;
data points {
    source  csv("small.csv", header: true);
    feature a: f32;
    feature b: f32;
    feature c: f32;
    feature y: f32;
    repeat;
    batch   8;
}
model (a: f32[batch], b: f32[batch], c: f32[batch], y: f32[batch]) {
    let guess = stack([a, b, c], axis: 1) |> dense(1);
    loss mean(square(guess[_, 0] - y));
}
train { data points; optimizer gradient_descent(0.01); steps 1_000_000; }
hooks { log none; checkpoint none; summary none; }
'''


def path(name):
    return os.path.join(FOLDER, name)


def write(name, text):
    with open(path(name), 'w') as file:
        file.write(text)
    return path(name)


def make_files():
    if os.path.exists(path('made')):
        return
    import numpy as np, tensorflow as tf
    draws = np.random.default_rng(0)
    floats = lambda values: tf.train.Feature(float_list=tf.train.FloatList(value=values))
    ints = lambda values: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    data = lambda value: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def records(name, count, example):
        with tf.io.TFRecordWriter(path(name)) as file:
            for i in range(count):
                file.write(tf.train.Example(features=tf.train.Features(feature=example(i))).SerializeToString())

    records('floats.tfrecord', 200_000, lambda i: {
        **{f'f{k}': floats([k + i * .5]) for k in range(10)}, 'label': ints([i % 10]), 's': data(b'x' * 32)})
    records('clicks.tfrecord', 200 * 512, lambda i: {
        'ids': ints(draws.integers(0, 1 << 20, 39)), 'clicked': floats([float(i % 2)])})
    records('images.tfrecord', 400 * 128, lambda i: {
        'image': data(draws.integers(0, 256, 784, dtype='uint8').tobytes()), 'label': ints([i % 10])})
    with open(path('numbers.csv'), 'w') as file:
        file.write(','.join([f'f{k}' for k in range(8)] + ['label']) + '\n')
        for i in range(500_000):
            file.write(','.join(f'{x:.6f}' for x in draws.random(8)) + f',{i % 10}\n')
    with open(path('small.csv'), 'w') as file:
        file.write('a,b,c,y\n')
        for i in range(800):
            file.write(','.join(f'{x:.3f}' for x in draws.random(4)) + '\n')
    write('made', '')


def run(*arguments):
    """A run of ours: wall clock, CPU time and output."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([EXE, *arguments], capture_output=True, text=True, cwd=FOLDER)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout


def theirs(make):
    """An epoch of tf.data: wall clock and CPU time, after one that is not counted."""
    for _ in range(2):
        cpu, start = time.process_time(), time.perf_counter()
        for _ in make():
            pass
    return time.perf_counter() - start, time.process_time() - cpu


def beside(name, spec, make):
    file = write(f'{name}.trainspec', spec)
    ours, peer = (9e9, 9e9), (9e9, 9e9)
    for _ in range(options.rounds):
        wall, cpu, out = run('data', file, '--limit', '1000000000', '--seconds', '600', '--format', 'json')
        report = json.loads(out.splitlines()[-1])
        ours = min(ours[0], report['seconds']), min(ours[1], cpu)
        wall, cpu = theirs(make)
        peer = min(peer[0], wall), min(peer[1], cpu)
        count = report['records']
    print(f'{name}: trainspec {count / ours[0]:,.0f} records/s on one thread ({ours[1]:.2f} s of CPU with start and report), '
          f'tf.data {count / peer[0]:,.0f} ({peer[1]:.2f} s of CPU); ratio {peer[0] / ours[0]:.1f}, of CPU {peer[1] / ours[1]:.1f}', flush=True)


def tfrecord():
    import tensorflow as tf
    features = {f'f{k}': tf.io.FixedLenFeature([], 'float32') for k in range(10)}
    features |= {'label': tf.io.FixedLenFeature([], 'int64'), 's': tf.io.FixedLenFeature([], 'string')}

    def make():
        scale = lambda batch: {**batch, 'f0': batch['f0'] * 0.01}
        data = tf.data.TFRecordDataset([path('floats.tfrecord')] * 5).shuffle(10_000, seed=1).batch(512)
        data = data.map(lambda b: tf.io.parse_example(b, features), num_parallel_calls=2)
        return data.map(scale, num_parallel_calls=2).prefetch(4)

    beside('tfrecord', TFRECORD, make)


def csv():
    import tensorflow as tf

    def make():
        return tf.data.experimental.make_csv_dataset(
            path('numbers.csv'), 512, num_epochs=1, shuffle_buffer_size=10_000, shuffle_seed=1, num_parallel_reads=2)

    beside('csv', CSV, make)


def trained(name, data, epoch, steps):
    """A training from a file with so many batches an epoch, beside steps on data in memory and decoding alone."""
    source = os.path.join(SPECS, f'{name}.trainspec')
    text = open(source).read()
    at = text.index('train {')
    text = text[:at] + data + text[at:].replace('train {', 'train {\n    data file;')
    file = write(f'{name}.trainspec', text + '\nhooks { log none; checkpoint none; summary none; nan none; }\n')
    training = ['run', file, '--quiet', '--fresh', '--dir', path('run'), '--steps']
    best = {}
    for _ in range(options.rounds):
        report = run('data', file, '--limit', str(epoch), '--seconds', '600', '--format', 'json')[2]
        decode = json.loads(report.splitlines()[-1])['seconds'] * steps / epoch
        times = {
            'file': [run(*training, str(n))[:2] for n in (steps // 10, steps + steps // 10)],
            'memory': [run('bench', source, '--steps', str(n))[:2] for n in (steps // 10, steps + steps // 10)],
            'decode': [(0, 0), (decode, decode)],
        }
        for key, (short, long) in times.items():
            for i, unit in enumerate(['wall', 'CPU']):
                best[key, unit] = min(best.get((key, unit), 9e9), long[i] - short[i])
    bound = best['memory', 'CPU'] + 1.15 * best['decode', 'CPU']
    print(f"{name}: {steps} steps from a file take {best['file', 'wall']:.2f} s ({best['file', 'CPU']:.2f} s of CPU), "
          f"from memory {best['memory', 'wall']:.2f} s ({best['memory', 'CPU']:.2f} s of CPU), decoding alone {best['decode', 'CPU']:.2f} s; "
          f"wall clock {best['file', 'wall'] / best['memory', 'wall']:.2f} times that of memory, "
          f"CPU {best['file', 'CPU'] / bound:.2f} times that of memory and 1.15 decoding", flush=True)


def ftrl():
    trained('ftrl', '''data file {
    source  tfrecord("clicks.tfrecord");
    feature ids: i64[39] in 0..1_048_576;
    feature clicked: f32;
    repeat;
    batch   512;
}
''', 200, 4_000)


def mlp():
    trained('mlp', '''data file {
    source  tfrecord("images.tfrecord");
    feature image: u8[784];
    feature label: i64 in 0..10;
    repeat;
    batch   128;
    map     image = cast(image, f32) / 255.0;
}
''', 400, 2_400)


def small():
    file = write('small.trainspec', SMALL)
    wall = cpu = 9e9
    for _ in range(options.rounds):
        one = run('run', file, '--quiet', '--fresh', '--dir', path('run'))
        wall, cpu = min(wall, one[0]), min(cpu, one[1])
    print(f'small: {1e6 / wall:,.0f} steps/s, {cpu:.2f} us of CPU a step', flush=True)


make_files()
for workload in options.workloads:
    {'tfrecord': tfrecord, 'csv': csv, 'ftrl': ftrl, 'mlp': mlp, 'small': small}[workload]()
