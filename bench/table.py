"""Turns the lines of ratios.py on standard input into the table of docs/performance.md."""
import re, sys

PEERS = ['tensorflow', 'tensorflow-xla', 'jax', 'torch', 'candle']


def number(x):
    """Three digits that count, without an exponent."""
    return '-' if x is None else f'{x:,.0f}' if x >= 100 else f'{x:.3g}'


print('| workload | trainspec | ' + ' | '.join(PEERS) + ' | ratio to the best |')
print('| --- |' + ' ---: |' * (len(PEERS) + 2))
for line in sys.stdin:
    found = re.match(r'(\S+): trainspec (\S+)/s, best peer (\S+) \S+/s, ratio (\S+) .*all: (.*)', line)
    if not found:
        continue
    name, ours, best, ratio, rest = found.groups()
    peers = {k: float(v) for k, v in (item.split(' ') for item in rest.strip().split(', ') if item)}
    cells = [number(peers.get(p)) if p != best else f'**{number(peers[p])}**' for p in PEERS]
    print(f'| {name} | {number(float(ours))} | ' + ' | '.join(cells) + f' | {ratio} |')
