#!/bin/bash
# Runs a bundle of `cargo xtask bundle` on a GPU machine. Needs bash, the driver and cuDNN; no Rust.
#   bash run.sh tests [FILTER]         the GPU tests whose name holds FILTER, once for each cuDNN found
#   bash run.sh examples [NAME…]       every example, or those named
#   bash run.sh bench [NAME [ARG…]]    every benchmark, or the one named, with arguments
# FUSED_GRAPH_CUDNN_DIR      use this cuDNN alone
# FUSED_GRAPH_TIME_LIMIT     seconds that one program may take (300)
set -u -o pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# It stands for the repository: tests and examples read their data below it.
export FUSED_GRAPH_ROOT="$here/root"
limit=${FUSED_GRAPH_TIME_LIMIT:-300}
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
failed=0
ran=0

row() { # RESULT WHAT COUNT SECONDS NOTE
    printf '  %-6s  %-56s  %12s  %6s s  %s\n' "$@" >>"$scratch/summary"
    ran=$((ran + 1))
    [ "$1" = ok ] || failed=$((failed + 1))
}

# Runs a program with the time limit, its output shown and kept in $scratch/output. Sets $status and $took.
run() {
    local began=$SECONDS
    chmod +x "$1"
    (cd "$FUSED_GRAPH_ROOT" && timeout --kill-after=10 "$limit" "$@") 2>&1 | tee "$scratch/output"
    status=$?
    took=$((SECONDS - began))
}

how_it_ended() {
    case $status in
    0) echo ;;
    124 | 137) echo "ran past $limit s" ;;
    139 | 134) echo "died of signal $((status - 128))" ;;
    *) echo "exit status $status" ;;
    esac
}

# The GPU tests of one executable, on one cuDNN. A test that was named and did not pass counts as failed, also where the harness says nothing.
run_tests() { # EXECUTABLE CUDNN-LABEL FILTER
    local name names passed
    name=$(basename "$1")
    mapfile -t names < <(grep -F -- "$3" "$1.list")
    [ ${#names[@]} -gt 0 ] || return 0
    echo "=== $name, cuDNN $2"
    run "$1" --ignored --test-threads=1 --exact "${names[@]}"
    passed=$(sed -n 's/^test result: .* \([0-9]*\) passed;.*/\1/p' "$scratch/output")
    if [ "$status" = 0 ] && [ "${passed:-0}" = ${#names[@]} ]; then
        row ok "$name, cuDNN $2" "$passed passed" "$took" ""
    else
        row FAILED "$name, cuDNN $2" "${passed:-0} of ${#names[@]}" "$took" "$(how_it_ended)"
        sed -n 's/^test \(.*\) \.\.\. FAILED$/          \1/p' "$scratch/output" >>"$scratch/summary"
    fi
}

all_tests() { # CUDNN-LABEL FILTER
    local list
    for list in "$here"/tests/*.list; do
        [ -e "$list" ] && run_tests "${list%.list}" "$1" "$2"
    done
}

tests() { # FILTER
    local beside_torch
    # Tests count what they build; those of the store set it themselves.
    export FUSED_GRAPH_CACHE=${FUSED_GRAPH_CACHE:-off}
    if [ -n "${FUSED_GRAPH_CUDNN_DIR:-}" ]; then
        all_tests "$FUSED_GRAPH_CUDNN_DIR" "$1"
        return
    fi
    # The system's cuDNN is tried where there is one; where there is none, the library's own search finds torch's, and once is enough.
    beside_torch=$(python3 -c 'import nvidia.cudnn as c; print(list(c.__path__)[0] + "/lib")' 2>/dev/null)
    if ldconfig -p | grep 'libcudnn\.so\.9' >/dev/null || [ -z "$beside_torch" ]; then
        all_tests system "$1"
    fi
    if [ -n "$beside_torch" ]; then
        export FUSED_GRAPH_CUDNN_DIR="$beside_torch"
        all_tests "beside torch" "$1"
    fi
}

# One program of a folder, with its arguments.
program() { # FOLDER NAME ARG…
    local what="$1/$2" path="$here/$1/$2"
    shift 2
    if [ ! -f "$path" ]; then
        row FAILED "$what" "" 0 "not in this bundle"
        return
    fi
    echo "=== $what"
    run "$path" "$@"
    if [ "$status" = 0 ]; then row ok "$what" "" "$took" ""; else row FAILED "$what" "" "$took" "$(how_it_ended)"; fi
}

names_in() { # FOLDER
    [ ! -d "$here/$1" ] || ls "$here/$1"
}

task=${1:-}
[ $# -eq 0 ] || shift
echo "fused-graph $(cat "$here/commit")"
nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null || echo "nvidia-smi finds no GPU"
case $task in
tests) tests "${1:-}" ;;
examples) for name in ${*:-$(names_in examples)}; do program examples "$name"; done ;;
bench)
    name=${1:-}
    [ $# -eq 0 ] || shift
    # `cargo bench` passes --bench too; harnesses tell by it that they are not being tested.
    for one in ${name:-$(names_in bench)}; do program bench "$one" --bench "$@"; done
    ;;
*)
    sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac

if [ "$ran" = 0 ]; then
    echo "run.sh: the bundle has nothing to run for: $task $*"
    exit 1
fi
printf '\n%s, %s of %s failed\n' "$task" "$failed" "$ran"
cat "$scratch/summary"
[ "$failed" = 0 ]
