"""Seeds that are made from the test data: every protocol, wrapping and JSON of small pickles; error texts; settings."""

import base64
import gzip
import io
import json
import pathlib
import pickle
import re
import sys
import zipfile

DATA = pathlib.Path("../testdata")
CORPUS = pathlib.Path("corpus")


class Plain(pickle.Unpickler):
    """Refuses to import anything: snapshots are plain data."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}")


def put(target, name, content):
    directory = CORPUS / target
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(content)


def zipped(name, content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


def snapshots(paths):
    for path in map(pathlib.Path, paths):
        raw = path.read_bytes()
        name = "_".join(path.parts[-2:])
        # Wrapping, place of the damage (two bytes), its bits, whether it is a cut: none here.
        for kind in range(4):
            put("wrapped", f"{name}_{kind}", bytes([kind, 0, 0, 0, 0]) + raw)
        try:
            snapshot = Plain(io.BytesIO(raw)).load()
            text = json.dumps(snapshot).encode()
        except Exception:  # Many of them are damaged on purpose.
            continue
        if len(text) < 65536:
            put("json", name + ".json", text)
        if len(raw) > 4096:
            continue
        for protocol in range(6):
            dumped = pickle.dumps(snapshot, protocol)
            put("pickle", f"{name}_{protocol}", dumped)
            put("file", f"{name}_{protocol}", dumped)
        put("file", name + ".gz", gzip.compress(raw))
        put("file", name + ".gz.gz", gzip.compress(gzip.compress(raw)))
        put("file", name + ".zip", zipped("a/data.pkl", raw))
        put("file", name + ".json.zip", zipped("a.json", text))
        put("file", name + ".html", b'<script>"base64": "' + base64.b64encode(raw) + b'"</script>')


def messages():
    rows = [json.loads(line) for line in (DATA / "oom/oom_messages.jsonl").read_text().splitlines()]
    rows += json.loads((DATA / "oom/oom_messages.json").read_text())
    for row in rows:
        put("oom_log", row["id"].replace("/", "_"), row["text"].encode())
    put("oom_log", "utf16", rows[0]["text"].encode("utf-16"))


def from_tests(target, path, pattern):
    """The texts in a file of tests that `pattern` finds: what its rules are tried on."""
    for number, text in enumerate(re.findall(pattern, pathlib.Path(path).read_text(), re.S)):
        put(target, f"{pathlib.Path(path).stem}_{number}", text.replace("\\n", "\n").encode())


snapshots(sys.argv[1:])
messages()
LINES = r'"\\\n(.+?)(?<!\\)"'
RAW = r'r#"(.*?)"#'
from_tests("oom_log", "../tests/oom_logs.rs", LINES)
from_tests("nvidia_smi", "../tests/oom_logs.rs", LINES)
from_tests("nvidia_smi", "../tests/oom_logs.rs", RAW)
from_tests("settings", "../src/allocator/settings/tests.rs", r'"([^"\n]*:[^"\n]*)"')
from_tests("beside", "../src/oom/estimate/config.rs", RAW)
figures = {"bytes": 4096, "exact": True}
device = {
    "device": 0,
    "peak": {"requested": figures, "allocated": figures, "reserved": figures},
    "trace": {"recorded": True, "complete": True, "reasons": []},
    "ooms": 1,
}
put("beside", "check.json", json.dumps({"oomscope": "0", "command": "check", "figures": {"devices": [device]}}).encode())
put("beside", "info.json", json.dumps({"oomscope": "0", "command": "info", "devices": [device | {"ooms": [1]}]}).encode())
