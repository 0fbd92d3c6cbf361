#!/bin/bash
# Builds Prism, Beam's own portable runner, into .prism/ from its Go module, of
# the version of Beam that is locked; needs Go 1.26 or later.
#   tools/prism.sh && .prism/prism -job_port 8073 -serve_http=false
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^apache-beam\(\[.*\]\)\?==\([0-9.]*\).*/\2/p' requirements.lock)
if [ -x ".prism/prism-$version" ]; then
    ln -sf "prism-$version" .prism/prism
    exit 0
fi
command -v go > /dev/null || { echo "prism: there is no Go; install version 1.26 or later." >&2; exit 2; }
mkdir -p .prism/new
GOBIN="$PWD/.prism/new" GOFLAGS=-mod=mod go install "github.com/apache/beam/sdks/v2/go/cmd/prism@v$version"
mv .prism/new/prism ".prism/prism-$version"
ln -sf "prism-$version" .prism/prism
