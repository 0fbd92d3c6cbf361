#!/usr/bin/env bash
# Makes or refreshes .venv from requirements.lock: `tools/setup_venv.sh [lock]`.
# Says what it does; does nothing when .venv already matches. With `lock` it
# resolves requirements.lock anew instead.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'headrace set-up: %s\n' "$*"; }

usable() { # a Python 3.11 that can make virtual environments
  "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.11 python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.11*/bin/python /usr/bin/python3.11; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 && usable "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  if command -v uv >/dev/null 2>&1 && candidate=$(uv python find 3.11 2>/dev/null) && usable "$candidate"; then
    echo "$candidate"
    return
  fi
  cat >&2 <<'HELP'
headrace set-up: no Python 3.11 that can make a virtual environment was found.
TFX 1.21 runs on Python 3.11 (not on 3.12 or later). Ways to get one:
  Debian 12:                apt-get install python3.11 python3.11-venv
  Debian 13, Ubuntu 24.04:  uv python install 3.11        (pip install uv)
                            pyenv install 3.11
  elsewhere:                PYTHON=/path/to/python3.11 make run
HELP
  exit 2
}

stamp() { cat requirements.lock setup.py | sha256sum | cut -d' ' -f1; }

# The lines of the lock that pin one package, with their hashes.
pin_of() { awk -v name="$1" '$0 ~ "^"name"==" {on=1} on {print} on && !/\\$/ {exit}' requirements.lock; }

if [ "${1:-}" = lock ]; then
  uv=.venv/bin/uv
  if [ ! -x "$uv" ]; then
    python=$(find_python)
    tools=$(mktemp -d)
    trap 'rm -rf "$tools"' EXIT
    "$python" -m venv "$tools"
    "$tools/bin/pip" install --quiet 'uv>=0.5,<1'
    uv="$tools/bin/uv"
  fi
  say "resolving setup.py and requirements.in under overrides.txt"
  "$uv" pip compile --quiet --no-config --python-version 3.11 --generate-hashes --upgrade \
    --extra dev --extra docs --extra kubeflow --extra onnx --extra s3 --extra gcs --extra http --extra otel \
    --extra signing \
    --override overrides.txt \
    --custom-compile-command 'make lock' --output-file requirements.lock setup.py requirements.in
  say "requirements.lock holds $(grep -c == requirements.lock) packages"
  exit 0
fi

if [ -f .venv/.headrace-stamp ] && [ "$(cat .venv/.headrace-stamp)" = "$(stamp)" ]; then
  exit 0
fi

began=$SECONDS
if [ ! -x .venv/bin/python ] || ! usable .venv/bin/python; then
  python=$(find_python)
  say "making .venv with $("$python" --version) ($python)"
  rm -rf .venv
  "$python" -m venv .venv
fi
if ! .venv/bin/uv --version >/dev/null 2>&1; then
  pins=$(mktemp)
  pin_of uv > "$pins"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$pins"
  rm -f "$pins"
fi
say "installing $(grep -c == requirements.lock) locked packages and compiling their bytecode (a few minutes, about 4 GB)"
# Hash-pinned and complete, so nothing is resolved. Uncompiled, each import of
# TFX would take three times as long.
unset PYTHONDONTWRITEBYTECODE
.venv/bin/uv pip sync --quiet --python .venv/bin/python --require-hashes --compile-bytecode requirements.lock
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --compile-bytecode --editable .
stamp > .venv/.headrace-stamp
say "ready in $((SECONDS - began)) s; \`source .venv/bin/activate\` makes headrace a command of this shell"
