#!/usr/bin/env bash
# Runs oomscope beside Python's pickle and two other tools, on one uncompressed snapshot, and prints a table of medians.
#
#   benches/compare.sh [FILE]
#
# Without FILE: the large snapshot of the shared data ($OOMSCOPE_SHARED, default ../shared), or else a synthetic one.
#   ROUNDS           rounds, default 5. In each, every contender runs once, so that a slow minute of the machine hits all.
#   OOMSCOPE         binary to measure; default: target/release/oomscope, built first
#   WITHOUT_PEERS=1  leave the other tools out
#
# Every contender reads the file from the page cache. benches/measure.py says how time and memory are measured.
set -euo pipefail
given=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."

# The interpreter itself: a wrapper in PATH would add its own time to each run.
if ! python=$(python3 -c 'import sys; print(sys.executable)'); then
    echo "compare.sh needs python3, both as a contender and to measure" >&2
    exit 2
fi

rounds=${ROUNDS:-5}
shared=${OOMSCOPE_SHARED:-../shared}
large=$shared/data/large/frag_python_2.6.0.pickle.zst
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ -z ${OOMSCOPE:-} ]]; then
    cargo build --release --quiet
    OOMSCOPE=target/release/oomscope
fi
OOMSCOPE=$(realpath "$OOMSCOPE")
cargo build --release --quiet --example decode
decode=$(realpath target/release/examples/decode)

# A copy in a folder of its own: peers leave caches beside their input.
if [[ -n $given ]]; then
    file=$work/$(basename "$given")
    cp --reflink=auto "$given" "$file"
elif [[ -f $large ]] && command -v zstd >/dev/null; then
    file=$work/frag_python_2.6.0.pickle
    zstd -qd "$large" -o "$file"
else
    echo "no shared data or no zstd: measuring a synthetic snapshot" >&2
    file=$work/synthetic.pickle
    cargo run --release --quiet --example synth -- --events 1000000 --depth 20 --out "$file" >/dev/null
fi
chmod u+rw "$file"

# --- peers -------------------------------------------------------------------------------------------------------------------
peers=target/compare-venv
ptmem= ptsnap=
if [[ -z ${WITHOUT_PEERS:-} ]]; then
    if [[ ! -x $peers/bin/python ]]; then
        "$python" -m venv "$peers" 2>/dev/null || echo "skipped: peers, since python3 cannot make a virtual environment" >&2
    fi
    # Fixed versions, so that figures of different days mean the same.
    for package in ptmem==0.1.2 pt-snap-cli==0.4.1; do
        "$peers/bin/pip" install --quiet --disable-pip-version-check "$package" 2>"$work/pip.log" ||
            echo "skipped: $package, since pip cannot install it" >&2
    done
    [[ -x $peers/bin/ptmem ]] && ptmem=$(realpath "$peers/bin")/ptmem
    [[ -x $peers/bin/pt-snap ]] && ptsnap=$(realpath "$peers/bin")/pt-snap
fi

# --- contenders --------------------------------------------------------------------------------------------------------------
# The process ends without freeing what it loaded, which is kinder to Python than most programs are.
load='import os, pickle, sys; snapshot = pickle.load(open(sys.argv[1], "rb")); os._exit(0)'
results=$work/results.jsonl
measure() { "$python" benches/measure.py run "$results" "$@"; }

contend() {
    measure "pickle.load" -- "$python" -c "$load" "$file"
    measure "pickle.load, gc off" -- "$python" -c "import gc; gc.disable(); $load" "$file"
    measure "decode alone" -- "$decode" "$file"
    measure "oomscope info" -- "$OOMSCOPE" info "$file"
    measure "oomscope report" -- "$OOMSCOPE" report "$file"
    if [[ -n $ptmem ]]; then
        rm -f "$work"/.*.memcache
        measure "ptmem -s" -- "$ptmem" -s "$file"
    fi
    if [[ -n $ptsnap ]]; then
        rm -rf "$work/home" "$work/database"
        mkdir "$work/home"
        measure "pt-snap import + peak report" -- env HOME="$work/home" sh -c '
            "$1" import "$2" --output-dir "$3" --no-focus --json && "$1" report peak-memory "$3/$4.db" --json' \
            sh "$ptsnap" "$file" "$work/database" "$(basename "$file")"
    fi
}

cat "$file" >/dev/null
for ((round = 1; round <= rounds; round++)); do
    echo "round $round of $rounds" >&2
    contend
done

echo "$(date -u +%F), $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort -u | head -1), load $(cut -d' ' -f1 /proc/loadavg)," \
    "$("$python" --version), $("$OOMSCOPE" --version 2>/dev/null | head -1)"
"$python" benches/measure.py table "$results" "$file" "pickle.load"
