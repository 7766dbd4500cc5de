#!/usr/bin/env bash
# TensorFlow and TensorBoard read what we write, TFRecords, checkpoints, event files, and our command reads what they write. Installs both into a virtualenv of its own, which is
# kept in the user's cache folder under a key of the versions, or below `target` where there is none, or in INTEROP_VENV; fails where that
# is not possible.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=${CARGO_TARGET_DIR:-target}
requirements=tests/interop/requirements.txt
key=$({ python3 --version && cat "$requirements"; } | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
if [ -n "$cache" ] && mkdir -p "$cache/trainspec" 2>"/dev/null"; then
    venv=$cache/trainspec/interop-venv-$key
else
    venv=$target/interop/venv-$key
fi
venv=${INTEROP_VENV:-$venv}
written=$target/interop/written
if ! "$venv/bin/python" -c 'import tensorflow, tensorboard, safetensors, tensorboardX' 2> "/dev/null"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
fi

rm -rf "$written"
mkdir -p "$written"
# Of the whole workspace, so that the tests have built them already.
cargo build --quiet --locked --workspace --bin trainspec --example write_records --example write_checkpoints --example write_events
"$target/debug/examples/write_records" "$written/records"
"$target/debug/examples/write_checkpoints" "$written/checkpoints"
"$target/debug/examples/write_events" "$written/events" tests/oracle/checkpoints/*/*.meta
for kind in records checkpoints events; do
    printf -- '-- %s\n' "$kind"
    "$venv/bin/python" "tests/interop/$kind.py" "$written/$kind"
done
rm -rf "$written"
printf -- '-- %s\n' "fresh files"
"$venv/bin/python" tests/interop/fresh_files.py "$target/debug/trainspec" --seed 1
printf -- '-- %s\n' "exported models"
"$venv/bin/python" tests/interop/export.py "$target/debug/trainspec"
printf -- '-- %s\n' "training"
"$venv/bin/python" tests/interop/training.py "$target/debug/trainspec"
printf -- '-- %s\n' "Python on pages"
"$venv/bin/python" tests/interop/pages.py
