#!/usr/bin/env bash
# apply.sh TREE: all renames, in order, on a tree that has none of them
set -euo pipefail
h="$(cd "$(dirname "$0")" && pwd)"; cd "$1"
python3 $h/rename.py . $h/table1.txt
grep -rln '"epoch"' penstock tests docs examples benchmarks --include=*.py --include=*.js --include=*.md --include=*.json --include=*.html | xargs sed -i 's/"epoch"/"checkpoint_id"/g; s/"epoxy"/"checkpoint_ix"/'
sed -i 's/"penstock.epoch"/"penstock.checkpoint-id"/' penstock/connectors/lake/*.py tests/connectors/lake/test_tables.py
sed -i 's/_EPOCH\b/_CHECKPOINT_ID/' penstock/connectors/lake/delta_sink.py penstock/connectors/lake/iceberg_sink.py
sed -i 's/(?P<epoch>/(?P<checkpoint_id>/' penstock/connectors/files/committer.py
sed -i 's/    epoch: int/    checkpoint_id: int/' penstock/jobmanager/load.py
printf 'epochs intervals code +penstock/jobmanager/load.py\nepoch interval code +penstock/jobmanager/load.py\n' > t2.txt; python3 $h/rename.py . t2.txt
python3 $h/contexts.py .
sed -i 's/self\.checkpoint_id, self\.values = checkpoint, \[\]/self.checkpoint, self.values = checkpoint, []/; s/(self\.checkpoint_id\.checkpoint_id, self\.checkpoint_id\.attempt/(self.checkpoint.checkpoint_id, self.checkpoint.attempt/' tests/unit/runtime/task/test_live_task.py
python3 $h/rename.py . $h/table2.txt
python3 $h/scoped.py . $h/scoped1.txt
python3 $h/rename.py . $h/table3.txt
python3 $h/replay_words.py .
python3 $h/patches.py .
[ -f docs/glossary.md ] || cp $h/glossary.md docs/glossary.md
ruff=.venv/bin/python
$ruff -m ruff check -q --fix --select I001,RUF022,RUF023,F401 penstock tests tools examples benchmarks || true
$ruff -m ruff format -q penstock tests tools examples benchmarks
