#!/bin/bash
# Serves the profiler's page of a traced run, from an environment of its own:
# the page's packages want another absl than TFX.
#   tools/profile_page.sh FOLDER [PORT]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?"give the model_run folder of a Trainer, such as workspace/artifacts/digits/Trainer/model_run/7"}
port=${2:-6006}
venv=.venv-profile
if [ ! -x "$venv/bin/tensorboard" ]; then
    .venv/bin/python -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "tensorboard>=2.19,<3" "xprof>=2.20,<3" "setuptools<81"
fi
exec "$venv/bin/tensorboard" --logdir "$folder" --port "$port"
