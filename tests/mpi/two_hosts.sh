#!/bin/sh
# Two hosts on this machine: each a network namespace with its own address, name and mounts, joined
# by one virtual cable. The second sees the folder of input and output through sshfs, as a cluster
# sees its shared file system, so all that travels goes over the cable, where it is counted and
# compared with the model of docs/cluster.md. Needs root; not part of CI.
#   sh tests/mpi/two_hosts.sh [PROGRAM] [TOKENS]
set -eu
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-build/mpi/app/mha-inspect}")
tokens=${2:-2048}
skip() { echo "skipped: $*"; exit 0; }
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
[ -e /dev/fuse ] || skip "no FUSE in this kernel"
for tool in mpirun sshfs ssh-keygen /usr/sbin/sshd ip unshare nsenter; do
  command -v $tool >/dev/null || skip "$tool is missing (Debian: openmpi-bin sshfs openssh-client openssh-server iproute2 util-linux)"
done
unshare --net --mount --uts true 2>/dev/null || skip "namespaces are not allowed here"

folder=$(mktemp -d)
a= b= sshd=
clean() {
  if [ "${done:-}" != yes ] && [ -s "$folder/sshd.log" ]; then cat "$folder/sshd.log"; fi
  [ -z "$b" ] || nsenter -t "$b" -m umount -l "$folder/shared" 2>/dev/null || :
  [ -z "$sshd" ] || kill "$sshd" 2>/dev/null || :
  for host in $a $b; do kill "$host" 2>/dev/null || :; done
  rm -rf "$folder"
}
trap clean EXIT
trap 'exit 1' INT TERM

# The hosts: processes that keep the namespaces.
unshare --net --mount --uts sleep 3600 & a=$!
unshare --net --mount --uts sleep 3600 & b=$!
sleep 0.3
on() { host=$1; shift; nsenter -t "$host" -n -m -u "$@"; }
on "$a" hostname host-a
on "$b" hostname host-b
on "$a" ip link add cable type veth peer name cable netns "/proc/$b/ns/net"
on "$a" ip address add 10.77.0.1/24 dev cable
on "$b" ip address add 10.77.0.2/24 dev cable
for host in $a $b; do on "$host" ip link set lo up; on "$host" ip link set cable up; done

# The second host mounts the folder of the first.
mkdir "$folder/shared" && mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
nsenter -t "$a" -n -m -u /usr/sbin/sshd -D -f /dev/null -p 2222 -h "$folder/key" -o ListenAddress=10.77.0.1 -o StrictModes=no -o PidFile=none \
  -o AuthorizedKeysFile="$folder/key.pub" -o PermitRootLogin=yes -o Subsystem="sftp internal-sftp" 2>"$folder/sshd.log" & sshd=$!
sleep 0.5
on "$b" sshfs -p 2222 -o IdentityFile="$folder/key",StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,dir_cache=no,LogLevel=ERROR \
  "root@10.77.0.1:$folder/shared" "$folder/shared"

# mpirun on the first host starts its helper on the second through this instead of ssh.
cat >"$folder/agent" <<AGENT
#!/bin/sh
shift
exec nsenter -t $b -n -m -u sh -c "\$*"
AGENT
chmod +x "$folder/agent"
ranks() { # ranks ARGUMENTS...: one rank on each host, talking TCP
  on "$a" mpirun --allow-run-as-root --quiet --host 10.77.0.1,10.77.0.2 -n 2 --map-by node --bind-to none \
    --mca plm_rsh_agent "$folder/agent" --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
    --mca oob_tcp_if_include 10.77.0.0/24 "$program" "$@"
}
counter() { on "$a" sh -c 'ip -s -j link show cable' | /usr/bin/python3 -c 'import json, sys; s = json.load(sys.stdin)[0]["stats64"]; print(s["rx"]["bytes"] + s["tx"]["bytes"])'; }
bytes_of() { before=$(counter); "$@" >"$folder/said" 2>&1 || { cat "$folder/said" >&2; exit 1; }; echo $(($(counter) - before)); }
size_of() { stat -c %s "$1"; }

input="$folder/shared/layer.npz"
/usr/bin/python3 - "$input" "$tokens" <<'PYTHON'
import sys
import numpy as np
random = np.random.default_rng(1)
tokens = int(sys.argv[2])
numbers = lambda *shape: random.standard_normal(shape).astype(np.float32) / 22
np.savez(sys.argv[1], num_heads=np.int64(8), X=numbers(tokens, 512), **{"W_" + w: numbers(512, 512) for w in "qkvo"})
PYTHON

failed=0
agrees() { # agrees WHAT MEASURED MODEL
  echo "$1: $2 bytes over the cable, $3 by the model ($(((1000 * $2 / $3 + 5) / 10)) %)"
  [ $((10 * $2)) -le $((11 * $3)) ] && [ $((10 * $2)) -ge $((9 * $3)) ] || { echo "FAILED: more than 10 % apart"; failed=1; }
}
same() { # same NAME ARGUMENTS...: the two hosts write the bytes of one process
  "$program" dump "$input" "$@" -o "$folder/one.npy"
  cmp "$folder/one.npy" "$folder/shared/two.npy" || { echo "FAILED: other bytes"; failed=1; }
}

start=$(bytes_of ranks --version)
echo "mpirun, the program's start and end: $start bytes"
for stage in weights output; do
  ranks dump "$input" -s $stage --dump-dtype f16 -j 1 -o "$folder/shared/warm.npy" >/dev/null # the second host reads the input
  measured=$(bytes_of ranks dump "$input" -s $stage --dump-dtype f16 -j 1 -o "$folder/shared/two.npy")
  same -s $stage --dump-dtype f16
  # The second host's half of the result, and the input that it reads.
  agrees "$stage of $tokens tokens" "$measured" $((start + $(size_of "$folder/shared/two.npy") / 2 + $(size_of "$input")))
done
# What the first host prints of what the second has computed travels between the ranks.
measured=$(bytes_of ranks show "$input" -s head_out -j 1 -f npy -o "$folder/shared/two.npy")
"$program" show "$input" -s head_out -f npy -o "$folder/one.npy"
cmp "$folder/one.npy" "$folder/shared/two.npy" || { echo "FAILED: other bytes"; failed=1; }
agrees "show head_out of $tokens tokens" "$measured" $((start + $(size_of "$folder/shared/two.npy") / 2 + $(size_of "$input")))
# Measures and pooled cells travel, no maps. Of an input that each host has for itself, that is all.
cp "$input" "$folder/layer.npz"
measured=$(bytes_of ranks stats "$folder/layer.npz" -j 1 -o "$folder/two.json")
"$program" stats "$folder/layer.npz" -o "$folder/one.json"
cmp "$folder/one.json" "$folder/two.json" || { echo "FAILED: other measures"; failed=1; }
cells=$((tokens < 256 ? tokens : 256)) # along a side of a head's map; a power of two of tokens
agrees "stats of $tokens tokens" "$measured" $((start + 8 * (4 * cells * cells + 424 * tokens / 256) / 2 + 16 * 48))
measured=$(bytes_of ranks map "$folder/layer.npz" -j 1 --cells 128 -o "$folder/two.png")
"$program" map "$folder/layer.npz" --cells 128 -o "$folder/one.png"
cmp "$folder/one.png" "$folder/two.png" || { echo "FAILED: another picture"; failed=1; }
agrees "map of $tokens tokens" "$measured" $((start + 8 * 128 * (12 * 128 + 24) / 2))
[ $failed -eq 0 ] && echo "two hosts: passed"
done=yes
exit $failed
