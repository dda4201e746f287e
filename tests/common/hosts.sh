# Hosts with addresses of their own, for tests/many.rs: h1 to h3 and `server`, namespaces of the network on a bridge, with a Redis in
# `server`. Run by `unshare --net --mount --pid`: with that process everything ends and nothing is left, also after SIGKILL.
#
#     bash hosts.sh HOME PROGRAM ARGUMENT...
#
# Starts the program on h1, h2 and h3 by Open MPI, whose agent enters the namespace where it would call ssh. h3 does not see HOME.
set -euo pipefail
home="$1"
shift
mount -t tmpfs none /run
mkdir /run/netns /run/tmp
export TMPDIR=/run/tmp

ip netns add switch
ip -n switch link add br0 type bridge
ip -n switch link set br0 up
number=1
for host in h1 h2 h3 server; do
    ip netns add "$host"
    ip -n "$host" link set lo up
    ip -n "$host" link add eth0 type veth peer name "p$number" netns switch
    ip -n switch link set "p$number" master br0 up
    ip -n "$host" address add "10.0.0.$number/24" dev eth0
    ip -n "$host" link set eth0 up
    number=$((number + 1))
done

ip netns exec server redis-server --bind 10.0.0.4 --port 6379 --save '' --protected-mode no --dir /run/tmp >/dev/null &
until ip netns exec server redis-cli -h 10.0.0.4 ping >/dev/null 2>&1; do sleep 0.05; done

cat >/run/tmp/agent <<'END'
#!/bin/sh
host="h${1##*.}"
shift
[ "$host" != h3 ] || hide="mount -t tmpfs none '$HIDDEN';"
exec ip netns exec "$host" unshare --uts --mount sh -c "hostname $host; ${hide:-} $*"
END
chmod +x /run/tmp/agent
export HIDDEN="$home"

exec ip netns exec h1 unshare --uts sh -c 'hostname h1; exec mpirun "$@"' mpirun --allow-run-as-root --bind-to none \
    --mca plm_rsh_agent /run/tmp/agent --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
    -H 10.0.0.1,10.0.0.2,10.0.0.3 -n 3 "$@"
