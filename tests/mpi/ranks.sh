#!/bin/sh
# What a program built with MPI does under mpirun, with 1 to 4 ranks on this machine. The last line
# counts what passed. tests/run.sh runs this with PRESET=mpi.
set -u
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-build/mpi/app/mha-inspect}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

check() { # check SENTENCE COMMAND...: the command succeeds
  sentence=$1
  shift
  if "$@" >"$folder/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $sentence: $*"
    cat "$folder/log"
  fi
}
ranks() { # ranks N COMMAND...
  n=$1
  shift
  # More ranks than cores may run; root is who runs in a container. Silent about exit codes.
  mpirun --allow-run-as-root --oversubscribe --quiet -n "$n" "$@"
}
# The same bytes from N ranks as from one process without mpirun.
same() { # same N NAME ARGUMENTS...
  n=$1 name=$2
  shift 2
  "$program" "$@" -o "$folder/one-$name" && ranks "$n" "$program" "$@" -o "$folder/all-$name" &&
    cmp "$folder/one-$name" "$folder/all-$name"
}
# The same text.
prints_same() { # prints_same N ARGUMENTS...
  n=$1
  shift
  "$program" "$@" >"$folder/one.txt" && ranks "$n" "$program" "$@" >"$folder/all.txt" && cmp "$folder/one.txt" "$folder/all.txt"
}
# N ranks, of which number BAD runs `sh -c INSTEAD`, end with exit code 2 and one message, and leave nothing behind.
fails() { # fails COMMAND FILE N BAD "X of the bad rank" MESSAGE
  rm -rf "$folder/out" && mkdir "$folder/out" && echo old >"$folder/out/$2"
  ranks "$3" sh -c 'x=$1; [ "$OMPI_COMM_WORLD_RANK" = "$3" ] && x=$2
    exec "$4" $5 "$6" "X=$x" -o "$7"' sh "$folder/x.npy" "$5" "$4" "$program" "$1" "$folder/layer.npz" \
    "$folder/out/$2" >"$folder/said" 2>&1
  code=$?
  cat "$folder/said"
  [ $code -eq 2 ] && [ "$(grep -c '^mha-inspect: ' "$folder/said")" -eq 1 ] && grep -q "$6" "$folder/said" &&
    [ "$(ls -A "$folder/out")" = "$2" ] && [ "$(cat "$folder/out/$2")" = old ]
}
refuses() { # refuses MESSAGE ARGUMENTS...
  message=$1
  shift
  ranks 2 "$program" "$@" >"$folder/said" 2>&1
  code=$?
  cat "$folder/said"
  [ $code -eq 2 ] && [ "$(grep -c '^mha-inspect: ' "$folder/said")" -eq 1 ] && grep -q "$message" "$folder/said"
}
exits_like() { # exits_like N ARGUMENTS...: with the code of one process
  n=$1
  shift
  "$program" "$@" >/dev/null 2>&1
  code=$?
  ranks "$n" "$program" "$@"
  [ $? -eq $code ]
}
says_once() { # says_once WORD ARGUMENTS...
  word=$1
  shift
  [ "$(ranks 3 "$program" "$@" 2>&1 | tee "$folder/said" | grep -c "$word")" -eq 1 ] || { cat "$folder/said"; false; }
}

# Two batch items of 600 tokens (3 blocks), 3 heads over 1 key/value head.
/usr/bin/python3 - "$folder" <<'PYTHON'
import sys
import numpy as np
folder = sys.argv[1]
random = np.random.default_rng(7)
numbers = lambda *shape: random.standard_normal(shape).astype(np.float32)
x = numbers(2, 600, 20)
np.save(folder + "/x.npy", x)
np.save(folder + "/other.npy", x + 1)
weights = dict(W_q=numbers(20, 24), W_k=numbers(20, 8), W_v=numbers(20, 8), W_o=numbers(24, 20), b_o=numbers(20))
np.savez(folder + "/layer.npz", num_heads=np.int64(3), num_kv_heads=np.int64(1), causal=np.bool_(True), **weights)
PYTHON
layer="$folder/layer.npz X=$folder/x.npy"
induction="data/induction --layer all X=data/induction/hidden.npz:layers.{layer}"

# Maps alone, and what the heads add: layers that start there.
# shellcheck disable=SC2086
"$program" dump $layer -s weights,head_result,output -o "$folder/saved.npz"
saved() { for stage; do printf '%s=%s:%s ' "$stage" "$folder/saved.npz" "$stage"; done; } # saved STAGE...

for n in 1 2 3 4; do
  # shellcheck disable=SC2046,SC2086  # words of a command line
  {
    check "$n ranks: one map as .npy" same $n w.npy dump $layer -s weights --dump-dtype f16
    check "$n ranks: stats as a table" prints_same $n stats $layer --all
    check "$n ranks: stats of layers" same $n s.json stats $induction --causal --tokens data/induction/tokens.json
    check "$n ranks: stats of a part" same $n s.csv stats $layer --batch 1 --head 2,0 --query ::-3
    check "$n ranks: stats of saved maps" prints_same $n stats $(saved weights) --all
    check "$n ranks: maps in the terminal" prints_same $n map $layer --batch 1
    check "$n ranks: maps of layers" same $n m.png map $induction
    check "$n ranks: cells across blocks" same $n m.svg map $layer --cells 37 --pool max --batch 0:
  }
done
# shellcheck disable=SC2046,SC2086
{
  check "maps and rows of all heads together" same 2 wo.safetensors dump $layer -s weights,output
  check "every stage, threads" same 3 every.safetensors dump $layer -j 2
  check "a selection, in another order" same 4 some.safetensors dump $layer -s k,scores,head_out --head 2,0 --query 300-410
  check "several layers in one file" same 3 layers.safetensors dump $induction -s q,k,weights,row_sum,output
  check "more ranks than units" same 4 few.npy dump data/quickstart.json -s output
  check "a file a layer" ranks 2 "$program" dump $induction -s weights -o "$folder/l{layer}.npy"
  check "a file a head" ranks 3 "$program" dump $layer -s weights -o "$folder/h{head}.npy"
  check "they are all there" ls "$folder/l0.npy" "$folder/l1.npy" "$folder/h0.npy" "$folder/h2.npy"
  rm -f "$folder/l1.npy"
  check "--resume goes on" says_once "1 of 2 layers" dump $induction -s weights --resume -o "$folder/l{layer}.npy"
  check "what was missing is there" ls "$folder/l1.npy"
  check "a rank that fails ends the run" fails "dump -s weights" kept.npy 3 1 "$folder/missing.npy" "rank 1 of 3 on .*missing.npy: no such file"
  check "the first rank fails" fails "dump -s weights" kept.npy 2 0 "$folder/missing.npy" "mha-inspect: .*missing.npy: no such file"
  check "ranks that read different files" fails "dump -s weights" kept.npy 3 2 "$folder/other.npy" "rank 2 of 3 reads another layer"
  check "formats of one process" refuses "several processes write .npy or .safetensors" dump $layer -o "$folder/a.npz"
  check "a folder that is missing" refuses "there is no folder" dump $layer -o "$folder/no/a.safetensors"
  check "--part under mpirun" refuses "whose ranks already divide the work" dump $layer --part 1/2 -o "$folder/a.npz"
  check "a wrong option is said once" refuses "no stage is called" dump $layer -s weihgts -o "$folder/a.npy"
  check "show: the overview of all ranks" prints_same 3 show $layer
  check "show: the numbers of all ranks" prints_same 4 show $layer -s weights,k,output --batch 1 --query 250-260 -f csv
  check "show: a selection across parts" prints_same 2 show $layer -s row_max -f json
  check "show: bytes" same 3 o.npy show $layer -s output -f npy
  check "stats: a file a head" ranks 3 "$program" stats $layer -o "$folder/s{head}.json"
  check "stats: of the heads' results" prints_same 3 stats $(saved head_result output) -f json
  check "stats: of the weights alone" prints_same 4 stats data/induction -f csv --layer 0 --measures rank_q,cond_v,stiefel_o
  check "stats: more ranks than units" prints_same 4 stats data/quickstart.json
  check "stats: a kind that no head is of" exits_like 2 stats $layer --kind duplicate
  check "stats: a rank that fails" fails stats kept.json 3 2 "$folder/missing.npy" "rank 2 of 3 on .*missing.npy: no such file"
  check "stats: ranks that read different files" fails stats kept.csv 3 1 "$folder/other.npy" "rank 1 of 3 reads another layer"
  check "map: a picture a head" ranks 2 "$program" map $layer -o "$folder/m{head}.png"
  check "they are all there" ls "$folder/s0.json" "$folder/s2.json" "$folder/m0.png" "$folder/m2.png"
  check "map: scores, some keys" same 3 k.png map $layer -s scores --key 5-500 --query ::2 --head 2,0
  check "map: saved maps" same 4 saved.svg map $(saved weights) --cells 50
  check "map: its note is said once" says_once "batch item 0 of 2" map $layer -o "$folder/n.png"
  check "map: a rank that fails" fails map kept.png 2 1 "$folder/missing.npy" "rank 1 of 2 on .*missing.npy: no such file"
  check "map: the first rank fails" fails map kept.svg 3 0 "$folder/missing.npy" "mha-inspect: .*missing.npy: no such file"
  check "map: ranks that read different files" fails "map -q" kept.png 3 2 "$folder/other.npy" "rank 2 of 3 reads another layer"
  check "what is not shared out runs once" says_once "also called" stages data/quickstart.json
  check "bench measures all ranks" says_once '"threads": 3' bench $layer -j 1 --repeat 2 --format json
}
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
