"""replay_words.py TREE: an interval is replayed, named by the checkpoint that it ends with (comments, texts and docs of `penstock replay`)."""
import io, re, sys, tokenize
from pathlib import Path
tree = Path(sys.argv[1])
WORD = re.compile(r"(?<![\w/.-])([Ee])poch(s?)\b(?!\s+milli|\s+sec|/|-)")

def words(text):
    def sub(m):
        before, after = text[max(0, m.start() - 12):m.start()], text[m.end():m.end() + 2]
        if re.search(r"\b(in|for)\s$", before) and m[2]: return m[0]  # epoch mode
        if re.match(r" [{\dN]", after): return "Checkpoint" if m[1] == "E" else "checkpoint"
        return ("I" if m[1] == "E" else "i") + "nterval" + m[2]
    text = WORD.sub(sub, text).replace("--epoch", "--checkpoint")
    return re.sub(r"\b([Aa])n checkpoint", r"\1 checkpoint", text)

def python(path, docstrings=True):
    text = path.read_text(); lines = text.splitlines(keepends=True); edits = []
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type == tokenize.COMMENT or (t.type == tokenize.STRING and t.string.strip("\"'") not in ("epoch", "epochs")):
            s = words(t.string)
            if s != t.string: edits.append((t.start, t.end, s))
    for (r1, c1), (r2, c2), s in sorted(edits, reverse=True):
        first, last = lines[r1 - 1], lines[r2 - 1]
        lines[r1 - 1:r2] = [first[:c1] + s + last[c2:]]
    path.write_text("".join(lines))

for path in [*(tree / "penstock/replay").glob("*.py"), *(tree / "tests/jobs/replay").glob("*.py"), *(tree / "tests/unit/replay").glob("*.py"),
             tree / "penstock/cli/replay.py", tree / "penstock/cli/examples.py", tree / "penstock/jobmanager/running/journal.py"]:
    if path.name != "epochs.py": python(path)
doc = tree / "docs/replay.md"
doc.write_text(words(doc.read_text()).replace("replay(directory, interval,", "replay(directory, checkpoint_id,").replace("interval=812", "checkpoint_id=812").replace("# Replaying an interval", "# Replaying an interval between checkpoints"))
doc = tree / "docs/command-line.md"
text = doc.read_text()
text = text.replace("| [replay](#penstock-replay) | run an epoch of a job again, here |", "| [replay](#penstock-replay) | run an interval of a job again, here |")
head, tail = text.split("\n## penstock replay\n", 1) if "\n## penstock replay\n" in text else (text, None)
if tail is None:
    i = text.index("`--epoch N`"); start = text.rfind("\n#", 0, i); end = text.find("\n#", i)
    text = text[:start] + words(text[start:end]).replace("which interval |", "the checkpoint that ends the interval |") + text[end:]
else:
    end = tail.find("\n## "); text = head + "\n## penstock replay\n" + words(tail[:end]).replace("which interval |", "the checkpoint that ends the interval |") + tail[end:]
doc.write_text(text)
e2e = tree / "tests/e2e/test_command_line.py"
e2e.write_text(e2e.read_text().replace('assert "epoch 1" in say(capsys, "replay", "numbers", "--epoch", "1"', 'assert "checkpoint 1" in say(capsys, "replay", "numbers", "--checkpoint", "1"'))
# The journal's directory
for name in ("penstock/checkpoint/manifest_store.py", "penstock/jobmanager/running/journal.py", "tests/jobs/replay/test_journal.py", "tests/faults/leader_harness.py", "tests/faults/fault_harness.py", "docs/replay.md", "docs/checkpoints.md"):
    p = tree / name; t = p.read_text()
    n = re.sub(r"(?<![\w.])epochs/(?=<|plan|7|\"|'|\\|\s)", "journal/", t)
    n = n.replace('JOURNAL = "epochs"', 'JOURNAL = "journal"')
    if n != t: p.write_text(n)
