#!/usr/bin/env bash
# Fills fuzz/corpus from the project's test data. Then, in the project's directory, for example:
#   cargo +nightly fuzz run pickle -- -max_total_time=300 -max_len=65536
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
small=$(find ../testdata/cases ../testdata/rig ../testdata/hostile -name '*.pickle' -size -16k)
seed pickle $small
seed wrapped $small
seed file $small ../testdata/formats/*.gz ../testdata/formats/*.zst ../testdata/formats/*.zip \
    ../testdata/formats/*.pt ../testdata/formats/*.html
seed oom_log ../testdata/oom/*.log ../testdata/oom/*.txt
seed nvidia_smi ../testdata/oom/*smi*
mkdir -p corpus/json corpus/simulator
gzip -dc ../testdata/formats/run.dump.json.gz | head -c 65536 >corpus/json/run.dump.json
printf '{"segments":[{"device":0,"address":4096,"total_size":512,"blocks":[{"address":4096,"size":512,"state":"inactive"}]}],"device_traces":[[{"action":"alloc","addr":4096,"size":512}]]}' \
    >corpus/json/small.json
head -c 4096 ../testdata/formats/run_protocol4.pickle >corpus/simulator/bytes
