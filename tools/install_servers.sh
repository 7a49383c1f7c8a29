#!/usr/bin/env bash
# Install the servers that tests of connectors run against, as far as that needs no question (root and apt-get, Maven).
# What is missing then is not an error here: the tests name it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv

say() { printf 'setup: %s\n' "$*" >&2; }

# ensure_debian COMMAND_OR_FILE PACKAGE...: install packages unless the command or the file is there.
ensure_debian() {
  local wanted=$1
  shift
  if command -v "$wanted" >/dev/null || [ -e "$wanted" ]; then return; fi
  if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    say "$wanted is missing, tests that need it cannot run; try: sudo apt-get install $*"
    return
  fi
  say "installing $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
    { apt-get update -qq >/dev/null && apt-get install -y -qq --no-install-recommends "$@" >/dev/null; } ||
    say "$* cannot be installed: tests that need it cannot run"
}

# ensure_jars NAME: fetch what tools/servers/NAME.pom.xml depends on, with Maven, into $venv/servers/NAME.
ensure_jars() {
  local pom="tools/servers/$1.pom.xml" home="$venv/servers/$1"
  if [ -e "$home/.fetched" ] && [ ! "$pom" -nt "$home/.fetched" ]; then return; fi
  if ! command -v mvn >/dev/null; then ensure_debian mvn maven; fi
  if ! command -v mvn >/dev/null; then return; fi
  say "fetching the jars of $1"
  rm -rf "$home"
  mkdir -p "$home"
  if JAVA_HOME=$(cat "$venv/java_home") mvn -q -B -f "$pom" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$PWD/$home" >&2; then
    touch "$home/.fetched"
  else
    say "the jars of $1 cannot be fetched: tests that need it cannot run"
  fi
}

# ensure_flink VERSION: Flink's own clients, its command line and its web page, which tests hold the REST API to.
ensure_flink() {
  local home="$venv/servers/flink"
  if [ -e "$home/pyflink/lib/flink-dist-$1.jar" ]; then return; fi
  say "installing the clients of Flink $1"
  rm -rf "$home"
  if "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$home" \
    "apache-flink-libraries==$1" >&2; then
    rm -rf "$home/pyflink/opt" "$home/pyflink/plugins"
  else
    rm -rf "$home"
    say "apache-flink-libraries cannot be installed: tests that need it cannot run"
  fi
}

if ! compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null; then ensure_debian initdb postgresql; fi
ensure_jars kafka
ensure_debian redis-server redis-server
ensure_debian prometheus prometheus
ensure_jars opensearch
ensure_jars zookeeper
# The browser that opens the web page in the tests, and a font that desktops have
ensure_debian chromium chromium
ensure_debian zsh zsh
ensure_debian fish fish
ensure_debian /usr/share/fonts/truetype/noto/NotoSans-Regular.ttf fonts-noto-core
ensure_flink 2.3.0
