"""scoped.py TREE TABLE: renames classes and functions of one module, and follows imports.

TABLE has lines: MODULE OLD NEW   (MODULE dotted, e.g. penstock.table.plan.nodes)
Renamed: the definition, its uses in that module, `from MODULE import OLD` and uses behind it (also through packages that re-export it),
`module.OLD` behind `import MODULE` / `from PACKAGE import module`, addresses "MODULE:OLD", and `OLD` in backquotes in comments and
docstrings of these files. Not renamed: what follows a dot otherwise, names of keyword arguments.
"""
import ast, io, re, sys, tokenize
from pathlib import Path

tree = Path(sys.argv[1])
ROOTS = ["penstock", "tests", "examples", "benchmarks", "tools"]
files = {p: p.read_text() for r in ROOTS for p in (tree / r).rglob("*.py") if "__pycache__" not in p.parts and ".work" not in p.parts}

def module_of(path):
    parts = list(path.relative_to(tree).with_suffix("").parts)
    if parts[-1] == "__init__": parts.pop()
    return ".".join(parts)

MODULES = {p: module_of(p) for p in files}
IMPORTS = {}
for p, text in files.items():
    found = []
    for n in ast.walk(ast.parse(text)):
        if isinstance(n, ast.ImportFrom):
            base = n.module or ""
            if n.level:
                package = MODULES[p].split(".")
                if p.name != "__init__.py": package = package[:-1]
                package = package[: len(package) - (n.level - 1)]
                base = ".".join(package + ([n.module] if n.module else []))
            for a in n.names: found.append((base, a.name, a.asname))
        elif isinstance(n, ast.Import):
            for a in n.names: found.append((a.name, None, a.asname))
    IMPORTS[p] = found

def names_in_texts(text):
    """Where texts are names: in __all__, in annotations, between the brackets of a generic type."""
    lines, roots, found = text.splitlines(), [], set()
    for n in ast.walk(ast.parse(text)):
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in n.targets): roots.append(n.value)
        elif isinstance(n, (ast.arg, ast.AnnAssign)) and n.annotation is not None: roots.append(n.annotation)
        elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.returns is not None: roots.append(n.returns)
        elif isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and (n.value.id[0].isupper() or n.value.id in ("type", "list", "dict", "tuple", "set")): roots.append(n.slice)
    for root in roots:
        for n in ast.walk(root):
            if isinstance(n, ast.Constant) and isinstance(n.value, str):
                found.add((n.lineno, len(lines[n.lineno - 1].encode()[: n.col_offset].decode())))
    return found

def rename(module, old, new):
    homes = {module}
    grown = True
    while grown:  # re-exports
        grown = False
        for p, found in IMPORTS.items():
            if MODULES[p] not in homes and p.name == "__init__.py" and any(b in homes and n == old and s is None for b, n, s in found):
                homes.add(MODULES[p]); grown = True
    for p, text in list(files.items()):
        plain = MODULES[p] == module
        aliased, through = False, set()
        for base, name, asname in IMPORTS[p]:
            if name == old and base in homes:
                if asname is None: plain = True
                else: aliased = True
            elif name is None and base in homes: through.add(asname or base)
            elif name is not None and f"{base}.{name}" in homes: through.add(asname or name)
        addresses = re.compile("(" + "|".join(re.escape(h) for h in homes) + rf")([:.]){old}\b")
        result = addresses.sub(lambda m: m[1] + m[2] + new, text)
        if plain or aliased or through:
            toks = list(tokenize.generate_tokens(io.StringIO(result).readline))
            names = names_in_texts(result)
            edits = []
            for i, t in enumerate(toks):
                if t.type == tokenize.NAME and t.string == old:
                    before = toks[i - 1].string if i else ""
                    if before == ".":
                        j, chain = i - 1, []
                        while j > 0 and toks[j].string == "." and toks[j - 1].type == tokenize.NAME:
                            chain.insert(0, toks[j - 1].string); j -= 2
                        if ".".join(chain) in through: edits.append((t.start, t.end, new))
                        continue
                    nxt = toks[i + 1].string if i + 1 < len(toks) else ""
                    if plain and not (nxt == "=" and before in "(,"):
                        edits.append((t.start, t.end, new))
                    elif aliased and nxt == "as": edits.append((t.start, t.end, new))
                elif plain and t.type in (tokenize.STRING, tokenize.COMMENT) and old in t.string:
                    s = t.string.replace(f"`{old}`", f"`{new}`")
                    if re.match(r"^[rb]*f", s, re.I):
                        s = re.sub(r"(?<!\{)\{([^{}]+)\}", lambda m: "{" + re.sub(rf"(?<![\w.]){old}\b", new, m[1]) + "}", s)
                    elif re.fullmatch(rf"[\"']{old}[\"']", s):  # __all__, annotations
                        if t.start in names: s = s[0] + new + s[0]
                    else:
                        s = re.sub(rf"(>>> .*)", lambda m: re.sub(rf"(?<![\w.]){old}\b", new, m[1]), s)
                    if s != t.string: edits.append((t.start, t.end, s))
            lines = result.splitlines(keepends=True)
            for (r1, c1), (r2, c2), s in sorted(edits, reverse=True):
                if r1 == r2:
                    l = lines[r1 - 1]; lines[r1 - 1] = l[:c1] + s + l[c2:]
                else:
                    lines[r1 - 1 : r2] = [lines[r1 - 1][:c1] + s + lines[r2 - 1][c2:]]
            result = "".join(lines)
        if result != text:
            files[p] = result; p.write_text(result)
            IMPORTS[p] = [(b, new if (n == old and b in homes) else n, s) for b, n, s in IMPORTS[p]]

for line in Path(sys.argv[2]).read_text().splitlines():
    line = line.split("#")[0].split()
    if line: rename(*line)
