#!/usr/bin/env bash
# Measures oomscope against Python's pickle and two other tools.
#
#   benches/compare.sh           everything that docs/performance.md tells: 20 minutes, 6 GB of disk, 12 GB of memory
#   benches/compare.sh --only PART   one part of it: recorded, against_peers, startup, python_frames, cpp_frames or growth
#   benches/compare.sh FILE      one uncompressed snapshot
#   benches/compare.sh --short   a small synthetic one, in seconds; fails if decoding is grossly slow
#
# Everything: the large snapshots of the shared data ($OOMSCOPE_SHARED, default ../shared) where they are, a synthetic gigabyte of
# Python frames, one of C++ frames, compressed input, start-up, and growth from 10 MB to 4 GB, drawn as docs/performance.svg.
#
#   ROUNDS           rounds, default 5. In each, every contender runs once, so that a slow minute of the machine hits all.
#   OOMSCOPE, DECODE, SYNTH   binary and examples to use; default: those in target/release, built first
#   SIZES            of the files for growth, default "10MB 30MB 100MB 300MB 1000MB 4000MB"
#   RESULTS          where to append every single run as a line of JSON; default: thrown away
#   WITHOUT_PEERS=1  leave the other tools out
#
# Every contender reads the file from the page cache. benches/measure.py says how time and memory are measured.
set -euo pipefail
mode=${1:-all}
[[ $mode == -* || $mode == all ]] || mode=$(realpath "$mode")
cd "$(dirname "$0")/.."

# The interpreter itself: a wrapper in PATH would add its own time to each run.
if ! python=$(python3 -c 'import sys; print(sys.executable)'); then
    echo "compare.sh needs python3, both as a contender and to measure" >&2
    exit 2
fi
[[ -n ${OOMSCOPE:-} ]] || cargo build --release --quiet
[[ -n ${DECODE:-} && -n ${SYNTH:-} ]] || cargo build --release --quiet --example decode --example synth
oomscope=$(realpath "${OOMSCOPE:-target/release/oomscope}")
decode=$(realpath "${DECODE:-target/release/examples/decode}")
synth=$(realpath "${SYNTH:-target/release/examples/synth}")

rounds=${ROUNDS:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=${RESULTS:-$work/results.jsonl}

# The process ends without freeing what it loaded, which is kinder to Python than most programs are.
load='import os, pickle, sys; snapshot = pickle.load(open(sys.argv[1], "rb")); os._exit(0)'
measure() { "$python" benches/measure.py run "$results" "$file" "$@"; }
table() { "$python" benches/measure.py table "$results" "$1" "pickle.load"; }

generate() { # NAME OPTION…: a synthetic snapshot
    file=$work/$1
    "$synth" --out "$file" "${@:2}" >"$work/truth.json"
}

# --- contenders --------------------------------------------------------------------------------------------------------------
ours() {
    measure "decode alone" -- "$decode" "$file"
    measure "oomscope info" -- "$oomscope" info "$file"
    measure "oomscope report" -- "$oomscope" report "$file"
    measure "oomscope report -o DIR" -- "$oomscope" report "$file" -o "$work/report"
}

pythons() {
    measure "pickle.load" -- "$python" -c "$load" "$file"
    measure "pickle.load, gc off" -- "$python" -c "import gc; gc.disable(); $load" "$file"
}

prepare_peers() {
    local venv=target/compare-venv
    ptmem= ptsnap=
    [[ -z ${WITHOUT_PEERS:-} ]] || return 0
    if [[ ! -x $venv/bin/python ]]; then
        "$python" -m venv "$venv" 2>/dev/null || echo "skipped: peers, since python3 cannot make a virtual environment" >&2
    fi
    # Fixed versions, so that figures of different days mean the same.
    for package in ptmem==0.1.2 pt-snap-cli==0.4.1; do
        "$venv/bin/pip" install --quiet --disable-pip-version-check "$package" 2>"$work/pip.log" ||
            echo "skipped: $package, since pip cannot install it" >&2
    done
    [[ -x $venv/bin/ptmem ]] && ptmem=$(realpath "$venv/bin")/ptmem
    [[ -x $venv/bin/pt-snap ]] && ptsnap=$(realpath "$venv/bin")/pt-snap
    return 0
}

peers() {
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

# compete FILE CONTENDERS…: functions of contenders, interleaved, then the table
compete() {
    file=$1
    cat "$file" >/dev/null
    for ((round = 1; round <= rounds; round++)); do
        echo "$(basename "$file"): round $round of $rounds" >&2
        for contenders in "${@:2}"; do "$contenders"; done
    done
    table "$file"
}

# --- what is measured --------------------------------------------------------------------------------------------------------
compressed() { # of the file at hand
    for packer in "gzip -1" "zstd -1"; do
        command -v "${packer% *}" >/dev/null || continue
        $packer -qc "$file" >"$work/packed"
        measure "decode alone, ${packer% *}" -- "$decode" "$work/packed"
    done
}

startup() {
    generate startup.pickle --events 1500
    for ((round = 1; round <= rounds; round++)); do
        measure "pickle.load" -- "$python" -c "$load" "$file"
        ours
    done
    table "$file"
}

growth() {
    for size in ${SIZES:-10MB 30MB 100MB 300MB 1000MB 4000MB}; do
        generate "growth-$size.pickle" --size "$size" --depth 20
        cat "$file" >/dev/null
        for ((round = 1; round <= (rounds + 1) / 2; round++)); do
            echo "$size: round $round" >&2
            # It would take 20 GB of memory for the largest.
            [[ $size == 4000MB ]] || measure "pickle.load" -- "$python" -c "$load" "$file"
            measure "decode alone" -- "$decode" "$file"
            measure "oomscope report" -- "$oomscope" report "$file"
        done
        rm "$file"
    done
    "$python" benches/measure.py growth "$results" docs/performance.svg
}

recorded() {
    for name in frag_python train_all; do
        packed=${OOMSCOPE_SHARED:-../shared}/data/large/${name}_2.6.0.pickle.zst
        if [[ ! -f $packed ]]; then
            echo "skipped: $packed" >&2
            continue
        fi
        zstd -qd "$packed" -o "$work/$name.pickle"
        compete "$work/$name.pickle" pythons ours compressed
        rm "$work/$name.pickle"
    done
}

against_peers() {
    prepare_peers
    # They take a minute for what the others do in a second.
    generate peers.pickle --events 300000 --depth 20
    compete "$file" pythons ours peers
}

python_frames() { # 10 million entries, nearly a gigabyte
    generate python-frames.pickle --events 10000000 --depth 27
    compete "$file" pythons ours
    rm "$file"
}

cpp_frames() { # a gigabyte, C++ frames 60 deep below 25 of Python
    generate cpp-frames.pickle --size 1060MB --depth 25 --cpp-frames
    compete "$file" pythons ours
    rm "$file"
}

echo "$(date -u +%F), $(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort -u | head -1), load $(cut -d' ' -f1 /proc/loadavg)," \
    "$("$python" --version), $("$oomscope" --version 2>/dev/null | head -1)"
case $mode in
    all) for part in recorded against_peers startup python_frames cpp_frames growth; do "$part"; done ;;
    --only) "$2" ;;
    --short)
        generate short.pickle --events 200000 --depth 20
        rounds=3 compete "$file" pythons ours
        # Far below what it is, so that only a gross mistake fails, not a busy machine.
        "$python" benches/measure.py require "$results" "decode alone" 6 "pickle.load"
        ;;
    -*) sed -n '2,/^set/s/^# \?//p' "$0" && exit 2 ;;
    *)
        prepare_peers
        cp --reflink=auto "$mode" "$work/"
        chmod u+rw "$work/$(basename "$mode")"
        compete "$work/$(basename "$mode")" pythons ours peers
        ;;
esac
