#!/usr/bin/env bash
# Programs that some tests use: MariaDB, PostgreSQL, Chromium, from Debian's packages.
#
#   tools/install_test_programs.sh
#
# Installs what is missing where it may (as root, with apt-get); else says so, and the tests
# skip with the reason. No server is left running: tests start their own.
set -uo pipefail

missing=()
command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || missing+=(mariadb-server-core mariadb-client-core)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
command -v chromium >/dev/null || missing+=(chromium)
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Not installed: ${missing[*]}. Tests that need them are skipped."
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# Packages would start their services otherwise.
policy=/usr/sbin/policy-rc.d
made=
[ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=1; }
apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
  echo "Could not install: ${missing[*]}. Tests that need them are skipped."
[ -z "$made" ] || rm -f "$policy"
