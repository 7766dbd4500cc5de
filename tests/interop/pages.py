"""Runs the Python on the pages that say what TensorFlow and Keras have beside a spec, and parses PyTorch's.

The blocks of a page are one program, in a folder of its own with the records of the digits.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program(page):
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks, page
    return "\n".join(blocks)


for page in ["from-tf-train.md", "from-keras.md"]:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "examples/data/digits-train.tfrecord", folder)
        quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program(page)], cwd=folder, env=quiet,
                              capture_output=True, text=True)
        assert done.returncode == 0, f"docs/{page}:\n{done.stdout}{done.stderr}"
    print(f"docs/{page} runs")
compile(program("from-pytorch.md"), "docs/from-pytorch.md", "exec")
print("docs/from-pytorch.md parses")
