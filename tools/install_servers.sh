#!/usr/bin/env bash
# Install the servers that tests of connectors run against, as far as that needs no question (root and apt-get, Maven, Go).
# What is missing then is not an error here: the tests name it.
#   tools/install_servers.sh            what `make test` needs
#   tools/install_servers.sh clusters   also HDFS, YARN and an S3 server, which only `make test-full` needs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
what=${1:-}

say() { printf 'setup: %s\n' "$*" >&2; }

missing=() # Debian packages to install

# want COMMAND_OR_FILE PACKAGE: note a package unless the command or the file is there.
want() {
  if ! command -v "$1" >/dev/null && ! compgen -G "$1" >/dev/null; then missing+=("$2"); fi
}

install_debian() {
  if [ ${#missing[@]} = 0 ]; then return; fi
  if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    say "tests that need these packages cannot run; try: sudo apt-get install ${missing[*]}"
    return
  fi
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  local options=(-y -qq --no-install-recommends -o Dpkg::Options::=--force-unsafe-io)
  apt-get install "${options[@]}" "${missing[@]}" >/dev/null 2>&1 ||
    { apt-get update -qq >/dev/null && apt-get install "${options[@]}" "${missing[@]}" >/dev/null; } ||
    say "${missing[*]} cannot be installed: tests that need them cannot run"
}

# ensure_jars NAME: fetch what tools/servers/NAME.pom.xml depends on, with Maven, into $venv/servers/NAME.
ensure_jars() {
  local pom="tools/servers/$1.pom.xml" home="$venv/servers/$1"
  if [ -e "$home/.fetched" ] && [ ! "$pom" -nt "$home/.fetched" ]; then return; fi
  if ! command -v mvn >/dev/null; then
    say "Maven is missing, tests that need $1 cannot run"
    return
  fi
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
  if "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target "$home" \
    "apache-flink-libraries==$1" >&2; then
    rm -rf "$home/pyflink/opt" "$home/pyflink/plugins"
  else
    rm -rf "$home"
    say "apache-flink-libraries cannot be installed: tests that need it cannot run"
  fi
}

# ensure_versitygw VERSION: an S3 server with conditional writes, built from its source, as it is not packaged.
ensure_versitygw() {
  local home="$venv/servers/versitygw"
  if [ -e "$home/.built-$1" ]; then return; fi
  if ! command -v go >/dev/null; then
    say "Go is missing, tests that need an S3 server cannot run"
    return
  fi
  say "building versitygw $1"
  rm -rf "$home"
  mkdir -p "$home"
  if GOBIN="$PWD/$home" go install "github.com/versity/versitygw/cmd/versitygw@$1" >&2; then
    touch "$home/.built-$1"
  else
    say "versitygw cannot be built: tests that need an S3 server cannot run"
  fi
}

want "/usr/lib/postgresql/*/bin/initdb" postgresql
want redis-server redis-server
want prometheus prometheus
want mvn maven
# The browser that opens the web page in the tests, and a font that desktops have
want chromium chromium
want /usr/share/fonts/truetype/noto/NotoSans-Regular.ttf fonts-noto-core
want zsh zsh
want fish fish

fetch_jars() {
  ensure_jars kafka
  ensure_jars zookeeper
  ensure_jars opensearch
  if [ "$what" = clusters ]; then ensure_jars hadoop; fi
}

# Side by side, as all of it is waiting for downloads; but Maven may have to be installed first.
ensure_flink 2.3.0 &
if [ "$what" = clusters ]; then ensure_versitygw v1.8.0 & fi
if command -v mvn >/dev/null; then
  fetch_jars &
  install_debian
else
  install_debian
  fetch_jars
fi
wait
