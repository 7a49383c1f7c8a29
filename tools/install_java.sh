#!/usr/bin/env bash
# Install a JDK if that needs no question (root and apt-get); else say how to, and fail.
set -euo pipefail

say() { printf 'setup: %s\n' "$*" >&2; }

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >&2
  for package in openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless; do
    say "installing $package"
    if apt-get install -y -qq --no-install-recommends "$package" >&2; then exit 0; fi
  done
fi

say "no JDK 17 or newer was found, and Spark needs one"
if command -v apt-get >/dev/null; then say "try: sudo apt-get install openjdk-17-jdk-headless"
elif command -v dnf >/dev/null; then say "try: sudo dnf install java-17-openjdk-headless"
elif command -v brew >/dev/null; then say "try: brew install openjdk@17"
else say "install one with your package manager"
fi
say "or name one: make setup JAVA_HOME=/path/to/jdk"
exit 1
