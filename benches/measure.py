#!/usr/bin/env python3
"""Measures processes for compare.sh.

    measure.py run RESULTS NAME -- COMMAND...   run once, append one JSON line to RESULTS
    measure.py table RESULTS FILE BASELINE      print medians, and ratios to the contender BASELINE, as a Markdown table

Time: wall clock from the moment the forked child may start its program to its exit; CPU as user + system from wait4, which counts waited-for children too.

Memory: /proc is sampled every 2 ms, over the process and its descendants. "RSS" is the sum of their VmHWM, the kernel's own
high-water mark, so a sample only has to come late, not at the peak. ru_maxrss is not used: it starts from what the parent had at
the fork, which is more than a small program ever takes. "anon" is the largest sum of RssAnon seen: memory that the program
allocated itself, without mapped files, which the kernel can drop again; RSS counts a mapped input like memory. There is no
high-water mark of RssAnon, so a peak shorter than 2 ms can be missed.
"""

import json
import os
import statistics
import sys
import threading
import time

INTERVAL = 0.002
MB = 1e6


def descendants(pid):
    """The process and all below it."""
    yield pid
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            children = f.read().split()
    except OSError:
        return
    for child in children:
        yield from descendants(int(child))


def memory(pid):
    """Sums of VmHWM and RssAnon in bytes."""
    rss = anon = 0
    for process in descendants(pid):
        try:
            with open(f"/proc/{process}/status") as f:
                for line in f:
                    if line.startswith("VmHWM:"):
                        rss += int(line.split()[1]) * 1024
                    elif line.startswith("RssAnon:"):
                        anon += int(line.split()[1]) * 1024
        except OSError:
            pass  # It ended meanwhile.
    return rss, anon


def run(command):
    """Runs the command with its output thrown away."""
    log = os.memfd_create("stderr")
    go_read, go_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go_write)
        os.read(go_read, 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(log, 2)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)
    os.close(go_read)
    mine = os.readlink(f"/proc/{os.getpid()}/exe")
    peak = [0, 0]
    done = threading.Event()

    def started():
        """Before the exec the child is a copy of this program, whose memory is not its own."""
        try:
            return os.readlink(f"/proc/{pid}/exe") != mine or command_line(pid) != command_line(os.getpid())
        except OSError:
            return False

    def sample():
        while not done.is_set():
            if started():
                peak[:] = map(max, peak, memory(pid))
            done.wait(INTERVAL)

    sampler = threading.Thread(target=sample)
    sampler.start()
    start = time.monotonic()
    os.close(go_write)
    _, status, usage = os.wait4(pid, 0)
    wall = time.monotonic() - start
    done.set()
    sampler.join()
    os.lseek(log, 0, os.SEEK_SET)
    errors = os.read(log, 4096).decode(errors="replace")
    return {
        "exit": os.waitstatus_to_exitcode(status),
        "wall": wall,
        "cpu": usage.ru_utime + usage.ru_stime,
        "rss": peak[0],
        "anon": peak[1],
        "errors": errors.strip()[-400:],
    }


def command_line(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        return f.read()


def table(results, path, baseline):
    size = os.path.getsize(path)
    runs = {}
    with open(results) as f:
        for line in f:
            result = json.loads(line)
            runs.setdefault(result["name"], []).append(result)

    def median(name, key):
        return statistics.median(result[key] for result in runs[name])

    print(f"{os.path.basename(path)}: {size / MB:.1f} MB, medians of {max(map(len, runs.values()))} interleaved rounds\n")
    print("| | wall s | CPU s | MB/s of wall | faster, wall | faster, CPU | RSS MB | × file | anon MB | × file |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, rounds in runs.items():
        failed = [result for result in rounds if result["exit"] != 0]
        if failed:
            last = (failed[-1]["errors"].splitlines() or ["no message"])[-1]
            print(f"| {name} | failed, exit {failed[-1]['exit']}: {last}" + " |" * 9)
            continue
        wall, cpu, rss, anon = (median(name, key) for key in ("wall", "cpu", "rss", "anon"))
        faster = [f"{median(baseline, key) / max(value, 1e-6):.2f} ×" for key, value in (("wall", wall), ("cpu", cpu))]
        print(
            f"| {name} | {wall:.3f} | {cpu:.3f} | {size / MB / wall:.0f} | {faster[0]} | {faster[1]} "
            f"| {rss / MB:.0f} | {rss / size:.2f} | {anon / MB:.0f} | {anon / size:.2f} |"
        )


def main():
    match sys.argv[1:]:
        case ["run", results, name, "--", *command] if command:
            result = {"name": name, **run(command)}
            with open(results, "a") as f:
                f.write(json.dumps(result) + "\n")
        case ["table", results, path, baseline]:
            table(results, path, baseline)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
