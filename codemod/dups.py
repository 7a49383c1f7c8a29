import ast, collections, pathlib
d=collections.defaultdict(list)
for p in pathlib.Path("penstock").rglob("*.py"):
    for n in ast.parse(p.read_text()).body:
        if isinstance(n, ast.ClassDef) and not n.name.startswith("_"):
            d[n.name].append(str(p)[9:-3])
x={k:v for k,v in d.items() if len(v)>1}
print(len(x))
for k,v in sorted(x.items()): print(k, *v)
