"""rename.py TREE TABLE: renames identifiers in Python code, and in prose where a name is distinctive.

TABLE has lines: OLD NEW [code] [+glob ...] [-glob ...]
`code`: names in code only (NAME tokens, expressions of f-strings), not in comments, texts and docs.
"""
import fnmatch, io, re, sys, tokenize
from pathlib import Path

tree, table = Path(sys.argv[1]), Path(sys.argv[2])
rules = []
for line in table.read_text().splitlines():
    line = line.split("#")[0].split()
    if not line: continue
    old, new, *rest = line
    rules.append((old, new, "code" in rest, [r[1:] for r in rest if r[0] == "+"], [r[1:] for r in rest if r[0] == "-"]))

ROOTS = ["penstock", "tests", "examples", "benchmarks", "tools", "docs"]
files = [p for r in ROOTS for p in (tree / r).rglob("*") if p.suffix in {".py", ".md", ".js", ".html", ".sh", ".toml", ".ipynb"} and "__pycache__" not in p.parts and ".work" not in p.parts]
files += [tree / n for n in ("README.md", "CONTRIBUTING.md", "pyproject.toml", "CHANGELOG.md")]

def applies(path, plus, minus):
    name = str(path.relative_to(tree))
    return (not plus or any(fnmatch.fnmatch(name, g) for g in plus)) and not any(fnmatch.fnmatch(name, g) for g in minus)

FPREFIX = re.compile(r"^[rRbB]*[fF][rRbB]*[\"']")
changed = 0
for path in files:
    mine = [r for r in rules if applies(path, r[3], r[4])]
    text = path.read_text()
    code = {r[0]: r[1] for r in mine}
    prose = {r[0]: r[1] for r in mine if not r[2]}
    present = [o for o in code if o in text]
    if not present: continue
    prose_re = re.compile(r"(?<![\w])(" + "|".join(map(re.escape, sorted(prose, key=len, reverse=True))) + r")(?!\w)") if prose else None
    code_re = re.compile(r"(?<![\w.\"'/-])(" + "|".join(map(re.escape, sorted(code, key=len, reverse=True))) + r")(?![\w\"'])")
    code_attr_re = re.compile(r"(?<![\w])(" + "|".join(map(re.escape, sorted(code, key=len, reverse=True))) + r")(?!\w)")
    sub_prose = (lambda s: prose_re.sub(lambda m: prose[m[1]], s)) if prose_re else (lambda s: s)
    if path.suffix != ".py":
        new = sub_prose(text)
    else:
        lines = text.splitlines(keepends=True)
        edits = []
        path_of_module, fresh = False, True  # names of modules stay: `from a.b import`, `import a.b`
        for t in tokenize.generate_tokens(io.StringIO(text).readline):
            if t.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT):
                path_of_module, fresh = False, fresh or t.type == tokenize.NEWLINE
            elif t.type == tokenize.NAME and fresh and t.string in ("from", "import"):
                path_of_module, fresh = True, False
            elif path_of_module and t.string in ("import", "as"):
                path_of_module = False
            else:
                fresh = False
            if path_of_module:
                continue
            if t.type == tokenize.NAME and t.string in code:
                edits.append((t.start, t.end, code[t.string]))
            elif t.type == tokenize.COMMENT:
                edits.append((t.start, t.end, sub_prose(t.string)))
            elif t.type == tokenize.STRING:
                s = sub_prose(t.string)
                if FPREFIX.match(s):
                    # expressions in braces, without format specs' plain text
                    s = re.sub(r"(?<!\{)\{([^{}]+)\}", lambda m: "{" + code_attr_re.sub(lambda k: code[k[1]], m[1]) + "}", s)
                if s != t.string: edits.append((t.start, t.end, s))
        for (r1, c1), (r2, c2), s in sorted(edits, reverse=True):
            if r1 == r2:
                l = lines[r1 - 1]; lines[r1 - 1] = l[:c1] + s + l[c2:]
            else:
                first, last = lines[r1 - 1], lines[r2 - 1]
                lines[r1 - 1 : r2] = [first[:c1] + s + last[c2:]]
        new = "".join(lines)
    if new != text:
        path.write_text(new); changed += 1
print(changed, "files changed")
