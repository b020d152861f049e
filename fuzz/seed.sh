#!/usr/bin/env bash
# Fills fuzz/corpus from the project's test data; needs python3. Then, in the project's directory, for example:
#   cargo +nightly fuzz run pickle -- -max_total_time=300 -max_len=65536 -timeout=10 -dict=fuzz/dict/snapshot.dict
set -euo pipefail
cd "$(dirname "$0")"

seed() { # TARGET FILE...
    local target=$1
    shift
    mkdir -p "corpus/$target"
    for file in "$@"; do
        # The same name may occur in several directories.
        cp "$file" "corpus/$target/$(echo "${file#../testdata/}" | tr / _)"
    done
}

shopt -s nullglob
small=$(find ../testdata/cases ../testdata/rig ../testdata/leaks ../testdata/hostile -name '*.pickle' -size -16k)
seed pickle $small
seed file $small ../testdata/formats/*.gz ../testdata/formats/*.zst ../testdata/formats/*.zip \
    ../testdata/formats/*.pt ../testdata/formats/*.html
seed oom_log ../testdata/oom/*.log ../testdata/oom/*.txt
seed nvidia_smi ../testdata/oom/*smi* ../testdata/hostile/*smi*
seed beside ../testdata/requests/*.json ../testdata/rules/*.toml ../src/oom/marks.txt
mkdir -p corpus/simulator
head -c 4096 ../testdata/formats/run_protocol4.pickle >corpus/simulator/bytes
python3 seed.py $small
