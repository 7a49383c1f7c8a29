"""Parameters that hold a CheckpointContext are named checkpoint, attributes that keep one too."""
import ast, sys
from pathlib import Path
tree = Path(sys.argv[1])
n = 0
for root in ("penstock", "tests", "examples", "benchmarks"):
    for path in (tree / root).rglob("*.py"):
        text = path.read_text()
        if "checkpoint_id" not in text: continue
        mod = ast.parse(text)
        edits, attrs = [], set()
        for f in ast.walk(mod):
            if not isinstance(f, ast.FunctionDef): continue
            arg = next((a for a in f.args.args if a.arg == "checkpoint_id"), None)
            if arg is None: continue
            ann = ast.unparse(arg.annotation) if arg.annotation else None
            uses = [x for x in ast.walk(f) if isinstance(x, ast.Name) and x.id == "checkpoint_id"]
            if not ((ann == "CheckpointContext") or (f.name == "begin" and ann in (None, "Any"))): continue
            edits.append((arg.lineno, arg.col_offset))
            fstrings = [x for x in ast.walk(f) if isinstance(x, ast.JoinedStr)]
            infs = {id(y) for j in fstrings for y in ast.walk(j)}
            for x in uses:
                if id(x) in infs: continue
                edits.append((x.lineno, x.col_offset))
            for j in fstrings:
                if any(isinstance(y, ast.Name) and y.id == "checkpoint_id" for y in ast.walk(j)):
                    edits.append(("f", j.lineno, j.end_lineno))
            for s in ast.walk(f):
                if isinstance(s, ast.Assign) and isinstance(s.value, ast.Name) and s.value.id == "checkpoint_id":
                    for t in s.targets:
                        if isinstance(t, ast.Attribute) and t.attr in ("_checkpoint_id", "checkpoint_id"): attrs.add(t.attr)
        if not edits: continue
        lines = text.split("\n")
        raw = [l.encode() for l in lines]
        import re
        for e in sorted([e for e in edits if e[0] != "f"], reverse=True):
            r, c = e; b = raw[r - 1]
            assert b[c:c + 13] == b"checkpoint_id", (path, r, b)
            raw[r - 1] = b[:c] + b"checkpoint" + b[c + 13:]
        for e in edits:
            if e[0] == "f":
                for r in range(e[1], e[2] + 1):
                    raw[r - 1] = re.sub(rb"(?<![\w.])checkpoint_id(?=[.}:!])", b"checkpoint", raw[r - 1])
        new = "\n".join(b.decode() for b in raw)
        for a in attrs:
            new = re.sub(rf"\bself\.{a}\b", "self." + a[:-3], new)
        path.write_text(new); n += 1
        print(path.relative_to(tree), attrs or "")
print(n)
