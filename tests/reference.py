"""An independent reading of snapshots, for tests/reference.rs: prints one JSON object a line for each file named.

Written from the description of the format and from nothing of oomscope. Nothing can be imported by the pickles.
"""
import collections
import gzip
import json
import pickle
import sys


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"refused {module}.{name}")


def pointer(value):
    return value % 2**64


def stack(frames):
    if frames and isinstance(frames[0], str):
        return tuple(frames)
    return tuple((f["filename"], f["line"], f["name"]) for f in frames or ())


def summary(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        top = Plain(file).load()
    if isinstance(top, list):
        top = {"segments": top}
    devices = collections.defaultdict(collections.Counter)
    stacks = collections.defaultdict(set)
    for segment in top.get("segments", []):
        device = devices[segment["device"]]
        end = start = pointer(segment["address"])
        device["segments"] += 1
        device["reserved"] += segment["total_size"]
        device["expandable"] += segment.get("is_expandable", False)
        stacks[segment["device"]].add(stack(segment.get("frames")))
        for block in segment["blocks"]:
            end = pointer(block.get("address", end)) + block["size"]
            device["max_address"] = max(device["max_address"], end)
            device["blocks"] += 1
            if block["state"] == "inactive":
                continue
            state = "allocated" if block["state"] == "active_allocated" else "pending"
            device[state] += block["size"]
            newest = (block.get("history") or [{}])[0]
            device["requested"] += newest.get("real_size", block.get("requested_size", block["size"]))
            frames = newest.get("frames") or newest.get("cpp_frames") or block.get("frames")
            stacks[segment["device"]].add(stack(frames))
    for ordinal, trace in enumerate(top.get("device_traces", [])):
        device = devices[ordinal] if trace else {}
        for entry in trace:
            device["event " + entry["action"]] += 1
            device["event sizes"] += entry["size"]
            device["streams"] += pointer(entry["stream"])
            device["times"] += entry.get("time_us", 0)
            address = pointer(entry.get("addr", entry.get("device_free")))
            device["addresses"] += address
            if "addr" in entry:
                device["max_address"] = max(device["max_address"], address)
            stacks[ordinal].add(stack(entry.get("frames") or entry.get("cpp_frames")))
    for ordinal, device in devices.items():
        distinct = stacks[ordinal] - {()}
        device["stacks"] = len(distinct)
        device["frames"] = len({frame for frames in distinct for frame in frames})
    texts = {"annotations": len(top.get("external_annotations", []))}
    # Sums may exceed what JSON readers keep exactly.
    return texts | {str(d): {k: str(v) for k, v in c.items() if v} for d, c in devices.items()}


for path in sys.argv[1:]:
    try:
        print(json.dumps(summary(path)))
    except (pickle.UnpicklingError, EOFError) as error:
        print(json.dumps({"error": str(error)}))
