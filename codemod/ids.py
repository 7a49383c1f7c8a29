import tokenize, sys, collections, pathlib, re
pat=re.compile(sys.argv[1])
root=pathlib.Path(sys.argv[2])
c=collections.defaultdict(collections.Counter)
for p in sorted(root.rglob("*.py")):
    with open(p,'rb') as f:
        for t in tokenize.tokenize(f.readline):
            if t.type==tokenize.NAME and pat.search(t.string):
                c[str(p)][t.string]+=1
for p,k in c.items(): print(p, dict(k))
