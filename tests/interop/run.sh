#!/usr/bin/env bash
# TensorFlow and TensorBoard read what we write: TFRecords, checkpoints, event files. Installs both into a virtualenv of its own, in
# INTEROP_VENV or below `target`; fails where that is not possible.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=${CARGO_TARGET_DIR:-target}
venv=${INTEROP_VENV:-$target/interop/venv}
written=$target/interop/written
if ! "$venv/bin/python" -c 'import tensorflow, tensorboard, safetensors' 2> "/dev/null"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check tensorflow-cpu tensorboard safetensors
fi

rm -rf "$written"
mkdir -p "$written"
cargo build --quiet --locked -p trainspec-formats --examples
"$target/debug/examples/write_records" "$written/records"
"$target/debug/examples/write_checkpoints" "$written/checkpoints"
"$target/debug/examples/write_events" "$written/events" tests/oracle/checkpoints/*/*.meta
for kind in records checkpoints events; do
    printf -- '-- %s\n' "$kind"
    "$venv/bin/python" "tests/interop/$kind.py" "$written/$kind"
done
rm -rf "$written"
