#!/usr/bin/env bash
# Print the home of a JDK 17 or newer: JAVA_HOME, java on PATH, the usual places. Fails if there is none.
set -euo pipefail

oldest=17

major_version() {
  "$1/bin/java" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1
}

offer() {
  local home=$1 major
  [ -x "$home/bin/java" ] || return 0
  major=$(major_version "$home" || true)
  if [ -n "$major" ] && [ "$major" -ge "$oldest" ]; then
    printf '%s\n' "$home"
    exit 0
  fi
}

if [ -n "${JAVA_HOME:-}" ]; then offer "$JAVA_HOME"; fi

# `java` on PATH is often a chain of links, or on macOS a stub: ask it where it lives.
if command -v java >/dev/null; then
  home=$(java -XshowSettings:properties -version 2>&1 |
    sed -nE 's/^ *java\.home = (.*)$/\1/p' || true)
  if [ -n "$home" ]; then offer "$home"; fi
fi

if [ -x /usr/libexec/java_home ]; then
  home=$(/usr/libexec/java_home -v "$oldest+" 2>/dev/null || true)
  if [ -n "$home" ]; then offer "$home"; fi
fi

shopt -s nullglob
for home in /usr/lib/jvm/* /opt/java/* /opt/jdk* /opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home \
  /usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home /Library/Java/JavaVirtualMachines/*/Contents/Home \
  "$HOME"/.sdkman/candidates/java/* "$HOME"/.jdks/*; do
  offer "$home"
done
exit 1
