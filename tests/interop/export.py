"""The Python code in the README of an exported model runs, and loads the values that the command shows."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

command = Path(sys.argv[1]).resolve()
examples = Path(__file__).resolve().parents[2] / "examples"


def trainspec(*arguments, folder):
    done = subprocess.run([command, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    shutil.copytree(examples / "data", folder / "data")
    shutil.copy(examples / "iris.trainspec", folder)
    trainspec("run", "iris.trainspec", "--quiet", "--steps", "20", folder=folder)
    trainspec("export", "iris.trainspec", "-o", "model", folder=folder)
    model = folder / "model"
    blocks = re.findall(r"```python\n(.*?)```", (model / "README.md").read_text(), re.DOTALL)
    assert blocks, "the README has Python code"
    code = "\n".join(blocks)
    found = subprocess.run(
        [sys.executable, "-c", code + "\nimport json\nprint(json.dumps({n: v.ravel().tolist() for n, v in weights.items()}))"],
        cwd=model,
        check=True,
        capture_output=True,
        text=True,
    )
    *listed, weights = found.stdout.splitlines()
    weights = json.loads(weights)
    assert len(listed) == len(weights) and "dense/kernel" in weights, listed
    for name, values in weights.items():
        shown = json.loads(trainspec("cat", "model/model.safetensors", name, "--format", "json", folder=folder))
        assert len(shown["values"]) == len(values), name
        assert all(abs(a - b) <= 1e-6 * abs(a) for a, b in zip(shown["values"], values)), name
    print(f"{len(weights)} tensors of an exported model")
