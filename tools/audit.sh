#!/bin/bash
# Looks every package of requirements.lock up in a database of known vulnerabilities.
# Exits with 0 where nothing is known, 1 where something is, 2 where the database cannot be asked.
set -uo pipefail
cd "$(dirname "$0")/.."

# pip-audit in an environment of its own: it is no part of what is locked. Versions
# are pinned with hashes, so nothing has to be resolved or installed.
output=$(.venv/bin/uv tool run pip-audit --requirement requirements.lock --require-hashes --disable-pip \
    --progress-spinner off 2>&1)
code=$?
echo "$output"
# It ends with 1 for a finding and for a failure alike; findings come as a table.
if [ "$code" -ne 0 ] && ! grep -q "known vulnerabilit" <<< "$output"; then
    echo "Error: the database of vulnerabilities could not be asked" >&2
    echo "  do: run make audit where a network allows it" >&2
    exit 2
fi
exit "$code"
