#!/usr/bin/env bash
# One training over several machines: two network namespaces of this one, each with a name and an address of its own, whose
# processes reach each other by TCP alone. The same bits as in one process, messages from one process only, and an end for
# all when one gets a signal to end. Then a sweep that both share. Needs root, ip and mpirun. machines.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
. "$(dirname "$0")/open_mpi.sh"
for tool in mpirun ip unshare; do command -v "$tool" >/dev/null || { echo "there is no $tool here"; exit 77; }; done
folder=$(mktemp -d)
a=afterglow-$$-a b=afterglow-$$-b net=10.213.77
clean() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$folder"
}
trap clean EXIT
ip netns add "$a" 2>/dev/null && ip netns add "$b" || { echo "this system gives no network namespaces"; exit 77; }
ip -n "$a" link add away type veth peer name away netns "$b"
for machine in "$a $net.1" "$b $net.2"; do
  read -r name address <<<"$machine"
  ip -n "$name" link set lo up
  ip -n "$name" addr add "$address/24" dev away
  ip -n "$name" link set away up
done

# on MACHINE COMMAND: under its name, in its network.
on() { ip netns exec "$1" unshare --uts bash -c 'hostname "$1"; shift; exec "$@"' - "$@"; }
# How mpirun starts its daemon on the other machine.
cat >"$folder/rsh" <<RSH
#!/usr/bin/env bash
[ "\$1" = $net.1 ] && name=$a || name=$b
shift
exec ip netns exec \$name unshare --uts bash -c "hostname \$name; \$*"
RSH
chmod +x "$folder/rsh"
export OMPI_MCA_plm_rsh_agent="$folder/rsh" OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_oob_tcp_if_include=$net.0/24 OMPI_MCA_btl_tcp_if_include=$net.0/24 OMPI_MCA_btl=tcp,vader,self
# start EACH COMMAND: so many processes on each machine.
start() { on "$a" timeout 120 mpirun --host "$net.1:$1,$net.2:$1" -n $((2 * $1)) "${@:2}"; }
names=$(start 1 hostname | sort | tr '\n' ' ')
[ "$names" = "$a $b " ] || fail "the two machines are: $names"

train=("$program" train --device cpu --threads 1 --no-figures --set shards=8 --json)
sent() { ip netns exec "$a" cat /sys/class/net/away/statistics/tx_bytes; }
for options in "tiny --until 20" "ssm-ska --until 3 --set batch=16"; do
  alone=$("${train[@]}" --preset $options --out "$folder/alone" --force | checksum_in)
  for each in 1 2 4; do
    before=$(sent)
    start "$each" "${train[@]}" --preset $options --out "$folder/shared" --force >"$folder/out" 2>"$folder/err" ||
      { cat "$folder/out" "$folder/err"; fail "$options, $each on each: code $?"; }
    [ "$(wc -l <"$folder/out")" = 1 ] || fail "$options, $each on each: $(wc -l <"$folder/out") lines"
    grep -q "\"$alone\"" "$folder/out" || fail "$options, $each on each: not the checksum $alone of one process"
    echo "$options, $each on each machine: $alone, $((($(sent) - before) / 1000000)) MB sent to the other"
  done
done

# One process of the second machine gets a signal to end: all end after the same step, with a snapshot.
start 1 "${train[@]}" --preset tiny --until 100000 --out "$folder/asked" >"$folder/out" 2>"$folder/err" &
for _ in $(seq 100); do
  sleep 0.2
  one=$(ip netns pids "$b" | while read -r pid; do
    [ "$(readlink "/proc/$pid/exe")" = "$program" ] && echo "$pid"
  done || true)
  [ -n "$one" ] && break
done
[ -n "$one" ] || fail "no process on the second machine"
sleep 2
kill -TERM $one
code=0
wait $! || code=$?
[ "$code" != 0 ] || fail "asked to end, they ended as if all were done"
ls "$folder"/asked/*.safetensors >/dev/null 2>&1 || { ls "$folder/asked"; fail "no snapshot was left"; }
echo "asked to end: code $code, a snapshot"

# A sweep of both machines, over one folder.
sweep=("$program" sweep --preset tiny --set steps=20 --axis learning_rate=log:1e-3:1e-2:4 --device cpu --threads 1 --quiet)
"${sweep[@]}" --out "$folder/one" >/dev/null
on "$a" "${sweep[@]}" --out "$folder/both" >/dev/null &
on "$b" "${sweep[@]}" --out "$folder/both" >/dev/null
wait $!
cmp "$folder/one/sweep.csv" "$folder/both/sweep.csv" || fail "the sweep of both is another"
echo "machines: fine"
