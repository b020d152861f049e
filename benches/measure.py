#!/usr/bin/env python3
"""Measures processes for compare.sh.

    measure.py run RESULTS FILE NAME -- COMMAND...     run once on FILE, append one JSON line to RESULTS
    measure.py table RESULTS FILE BASELINE             print medians, and ratios to the contender BASELINE, as a Markdown table
    measure.py require RESULTS NAME FACTOR BASELINE    fail if NAME is not FACTOR times as fast as BASELINE
    measure.py growth RESULTS SVG                      print and draw how time and memory grow with the files named growth-...

Time: wall clock from the moment the forked child may start its program to its exit; CPU as user + system from wait4, which counts waited-for children too.

Memory: /proc is sampled every 2 ms, over the process and its descendants. "RSS" is the sum of their VmHWM, the kernel's own
high-water mark, so a sample only has to come late, not at the peak. ru_maxrss is not used: it starts from what the parent had at
the fork, which is more than a small program ever takes. "anon" is the largest sum of RssAnon seen: memory that the program
allocated itself, without mapped files, which the kernel can drop again; RSS counts a mapped input like memory. There is no
high-water mark of RssAnon, so a peak shorter than 2 ms can be missed.
"""

import json
import math
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


class Results:
    """The runs of RESULTS, by file and contender."""

    def __init__(self, path):
        self.runs = {}
        with open(path) as f:
            for line in f:
                result = json.loads(line)
                self.runs.setdefault(result["file"], {}).setdefault(result["name"], []).append(result)

    def median(self, file, name, key):
        return statistics.median(result[key] for result in self.runs[file][name])


def table(results, path, baseline):
    results = Results(results)
    runs = results.runs[path]
    size = runs[baseline][0]["size"]
    print(f"\n{os.path.basename(path)}: {size / MB:.1f} MB, medians of {max(map(len, runs.values()))} interleaved rounds\n")
    print("| | wall s | CPU s | MB/s of wall | faster, wall | faster, CPU | RSS MB | × file | anon MB | × file |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, rounds in runs.items():
        failed = [result for result in rounds if result["exit"] != 0]
        if failed:
            last = (failed[-1]["errors"].splitlines() or ["no message"])[-1]
            print(f"| {name} | failed, exit {failed[-1]['exit']}: {last}" + " |" * 9)
            continue
        wall, cpu, rss, anon = (results.median(path, name, key) for key in ("wall", "cpu", "rss", "anon"))
        faster = [
            f"{results.median(path, baseline, key) / max(value, 1e-6):.2f} ×" for key, value in (("wall", wall), ("cpu", cpu))
        ]
        print(
            f"| {name} | {wall:.3f} | {cpu:.3f} | {size / MB / wall:.0f} | {faster[0]} | {faster[1]} "
            f"| {rss / MB:.0f} | {rss / size:.2f} | {anon / MB:.0f} | {anon / size:.2f} |"
        )


def require(results, name, factor, baseline):
    """Fails unless NAME took less than a FACTORth of BASELINE's CPU time."""
    results = Results(results)
    for file in results.runs:
        ratio = results.median(file, baseline, "cpu") / results.median(file, name, "cpu")
        if ratio < factor:
            sys.exit(f"{name} is only {ratio:.1f} × as fast as {baseline}, which is less than {factor:g} ×")


# Of Okabe and Ito, told apart by colour-blind readers too.
COLOURS = {"pickle.load": "#999999", "decode alone": "#0072b2", "oomscope report": "#d55e00"}


def growth(results, svg):
    """Draws CPU time and memory over the size of the files named growth-…; both axes are logarithmic."""
    results = Results(results)
    points = {name: [] for name in COLOURS}
    print("\n| file MB | | CPU s | s per GB | anon MB | × file |")
    print("|--:|---|--:|--:|--:|--:|")
    files = [file for file in results.runs if os.path.basename(file).startswith("growth-")]
    for file in sorted(files, key=lambda file: next(iter(results.runs[file].values()))[0]["size"]):
        runs = results.runs[file]
        for name in filter(points.__contains__, runs):
            size, cpu, anon = runs[name][0]["size"] / MB, *(results.median(file, name, key) for key in ("cpu", "anon"))
            points[name].append((size, cpu, anon / MB))
            print(f"| {size:.0f} | {name} | {cpu:.3f} | {cpu / size * 1000:.2f} | {anon / MB:.0f} | {anon / MB / size:.2f} |")
    with open(svg, "w") as f:
        f.write(draw(points))


def draw(points):
    width, height, left, bottom, top = 460, 340, 64, 46, 34
    x_range = (10, 4000)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{2 * width}" height="{height}" fill="white"/>',
    ]
    for panel, (title, column, low, high) in enumerate([("CPU time, s", 1, 0.001, 100), ("Anonymous memory, MB", 2, 1, 10000)]):
        origin = panel * width

        def x(value):
            return origin + left + math.log(value / x_range[0]) / math.log(x_range[1] / x_range[0]) * (width - left - 24)

        def y(value):
            return height - bottom - math.log(value / low) / math.log(high / low) * (height - bottom - top)

        out.append(f'<text x="{origin + left}" y="20" font-weight="bold">{title}</text>')
        out.append(f'<text x="{x(200):.0f}" y="{height - 8}" text-anchor="middle">file, MB</text>')
        for tick in (10, 100, 1000, 4000):
            out.append(f'<text x="{x(tick):.1f}" y="{height - bottom + 18}" text-anchor="middle">{tick}</text>')
            out.append(f'<path d="M{x(tick):.1f} {top}V{height - bottom}" stroke="#dddddd"/>')
        tick = low
        while tick <= high:
            out.append(f'<text x="{origin + left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
            out.append(f'<path d="M{origin + left} {y(tick):.1f}H{x(x_range[1]):.1f}" stroke="#dddddd"/>')
            tick *= 10
        # What is linear runs in parallel to this.
        start = low * 3
        out.append(
            f'<path d="M{x(10):.1f} {y(start):.1f}L{x(4000):.1f} {y(start * 400):.1f}" stroke="black" stroke-dasharray="2 4"/>'
        )
        out.append(f'<text x="{x(30):.1f}" y="{y(start * 3) + 18:.1f}">linear</text>')
        for name, values in points.items():
            if not values:
                continue
            places = [(x(row[0]), y(max(row[column], low))) for row in values]
            line = "L".join(f"{px:.1f} {py:.1f}" for px, py in places)
            out.append(f'<path d="M{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
            out.extend(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{COLOURS[name]}"/>' for px, py in places)
        for place, name in enumerate(points):
            at = top + 16 + 16 * place
            out.append(f'<circle cx="{origin + left + 14}" cy="{at - 4}" r="4" fill="{COLOURS[name]}"/>')
            out.append(f'<text x="{origin + left + 24}" y="{at}">{name}</text>')
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    match sys.argv[1:]:
        case ["run", results, file, name, "--", *command] if command:
            result = {"name": name, "file": file, "size": os.path.getsize(file), **run(command)}
            with open(results, "a") as f:
                f.write(json.dumps(result) + "\n")
        case ["table", results, path, baseline]:
            table(results, path, baseline)
        case ["require", results, name, factor, baseline]:
            require(results, name, float(factor), baseline)
        case ["growth", results, svg]:
            growth(results, svg)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
