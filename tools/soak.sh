#!/usr/bin/env bash
# Faults at other moments, random programs and values that no test run had before, then a job that runs for long.
#   tools/soak.sh [ROUNDS]     a failure names the seed: PENSTOCK_FAULT_SEED=... runs that round's faults again,
#                              and PENSTOCK_DELAY_SEED=... with --delay-threads its late threads
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=${1:-3}
python=.venv/bin/python
JAVA_HOME=$(cat .venv/java_home)
export JAVA_HOME
export PENSTOCK_SOAK=1 # more faults, and all combinations of backend and alignment

for round in $(seq 1 "$rounds"); do
  export PENSTOCK_FAULT_SEED="soak-$(date +%Y%m%d%H%M%S)"
  printf 'soak: round %s of %s, PENSTOCK_FAULT_SEED=%s\n' "$round" "$rounds" "$PENSTOCK_FAULT_SEED"
  "$python" -m pytest -q tests/faults
  "$python" -m pytest -q tests/connectors -n 2 --dist loadgroup
  "$python" -m pytest -q tests/e2e/test_flink_command_line.py tests/e2e/test_page.py
  "$python" -m pytest -q tests/unit tests/jobs tests/sql tests/zoo -n logical --maxprocesses 4 --hypothesis-profile=explore
  PENSTOCK_DELAY_SEED=$PENSTOCK_FAULT_SEED "$python" -m pytest -q tests/unit tests/jobs -n 8 --dist worksteal -m "not full" \
    --hypothesis-profile=ci --delay-threads 1.5
done
PENSTOCK_SLOW_SINK_S=600 "$python" -m pytest -q tests/faults/test_slow_sink.py
for mode in epochs pipelined; do
  for backend in hashmap rocksdb; do
    "$python" -m benchmarks.long_run --mode "$mode" --backend "$backend"
  done
done
