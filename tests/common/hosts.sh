# Virtual hosts for tests/many.rs: h1 to hN and `server`, network namespaces on a bridge, with servers in `server`. Run it by
# `unshare --net --mount --pid`: everything ends with that process, also by SIGKILL, and nothing is left.
#
#     bash hosts.sh HOME N SERVERS PROGRAM ARGUMENT...
#
# Starts the program on h1 to hN by Open MPI, whose agent enters the namespace where it would call ssh. h3 cannot see HOME.
# SERVERS are `redis`, or `postgres weed nginx`, where nginx passes requests on to weed and caches blobs that were read. REDIS,
# POSTGRES, INITDB, WEED and NGINX name their programs. The servers' directory and passwords end with them, and only these hosts
# can reach them. Each host knows `server` by that name. `far` puts 20 ms between h2 and its port 6379 by PROXY; `slow` limits what
# h3 receives to 5 Mbit/s; `ahead` sets the clock that counts since boot an hour ahead on h3.
set -euo pipefail
home="$1" hosts="$2" servers="$3"
shift 3
umask 077
mount -t tmpfs none /run
# Shared memory of the servers ends with them, too.
mount -t tmpfs none /dev/shm
mkdir /run/netns /run/tmp
export TMPDIR=/run/tmp

ip netns add switch
ip -n switch link add br0 type bridge
ip -n switch link set br0 up
# NAME NUMBER: makes a host and its link to the others.
host() {
    ip netns add "$1"
    ip -n "$1" link set lo up
    ip -n "$1" link add eth0 type veth peer name "p$2" netns switch
    ip -n switch link set "p$2" master br0 up
    ip -n "$1" address add "10.0.0.$2/24" dev eth0
    ip -n "$1" link set eth0 up
    echo '10.0.0.9 server' >"/run/tmp/hosts.$1"
}
host server 9
all=
for number in $(seq "$hosts"); do
    host "h$number" "$number"
    all="$all${all:+,}10.0.0.$number"
done

# Servers refuse to run as root, the only user here: they run as nobody in a user namespace, which is root outside.
as_nobody() { ip netns exec server unshare --ipc --user --map-user=65534 --map-group=65534 "$@"; }
answers() { (exec 3<>"/dev/tcp/10.0.0.9/$1") 2>/dev/null; }
export -f answers
# NAME PORT: waits for a server in `server`, for some minutes at most.
ready() {
    for _ in $(seq 2400); do
        ip netns exec server bash -c "answers $2" && return
        sleep 0.05
    done
    echo "$1 does not answer: $(tail -n 5 "/run/tmp/$1.log")" >&2
    return 1
}
secret() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

redis() {
    ip netns exec server "$REDIS" --bind 10.0.0.9 --port 6379 --save '' --protected-mode no --dir /run/tmp >/run/tmp/redis.log &
    ready redis 6379
}

postgres() {
    local password data=/run/tmp/postgres
    password="$(secret)"
    as_nobody "$INITDB" -D "$data" -U store --auth=scram-sha-256 --pwfile=<(echo "$password") -E UTF8 --locale=C --no-sync \
        >/run/tmp/postgres.log
    echo 'host all all 10.0.0.0/24 scram-sha-256' >>"$data/pg_hba.conf"
    as_nobody "$POSTGRES" -D "$data" -h 10.0.0.9 -p 5432 -k '' >>/run/tmp/postgres.log 2>&1 &
    ready postgres 5432
    export BLOBWISE_POSTGRES_URL="postgres://store:$password@10.0.0.9:5432/postgres"
}

weed() {
    local dir=/run/tmp/weed
    mkdir -p "$dir/data"
    AWS_ACCESS_KEY_ID="$(secret)" AWS_SECRET_ACCESS_KEY="$(secret)"
    export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
    cat >"$dir/identities.json" <<END
{"identities": [{"name": "store", "credentials": [{"accessKey": "$AWS_ACCESS_KEY_ID", "secretKey": "$AWS_SECRET_ACCESS_KEY"}],
  "actions": ["Admin", "Read", "List", "Tagging", "Write"]}]}
END
    HOME="$dir" ip netns exec server "$WEED" -logtostderr=true server -dir="$dir/data" -ip=10.0.0.9 -ip.bind=10.0.0.9 \
        -master.telemetry=false -master.volumeSizeLimitMB=64 -volume.max=30 -volume.port=8081 -filer -filer.localSocket="$dir/filer" \
        -s3 -s3.port=8333 -s3.port.iceberg=0 -s3.port.lance=0 -s3.localSocket="$dir/s3" -s3.config="$dir/identities.json" \
        >/run/tmp/weed.log 2>&1 &
    ready weed 8888
    # A bucket is a directory of weed's filer.
    ip netns exec server bash -c 'exec 3<>/dev/tcp/10.0.0.9/8888
        printf "POST /buckets/store/ HTTP/1.1\r\nHost: filer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" >&3
        grep -q "^HTTP/1.1 201" <&3'
    ready weed 8333
}

nginx() {
    mkdir /run/tmp/nginx
    cat >/run/tmp/nginx/nginx.conf <<END
daemon off;
worker_processes 1;
pid /run/tmp/nginx/pid;
error_log stderr;
events {}
http {
    log_format who '\$remote_addr \$request_method \$status \$upstream_cache_status';
    access_log '$home/nginx.log' who;
    client_body_temp_path /run/tmp/nginx/body;
    proxy_temp_path /run/tmp/nginx/proxy;
    fastcgi_temp_path /run/tmp/nginx/fastcgi;
    uwsgi_temp_path /run/tmp/nginx/uwsgi;
    scgi_temp_path /run/tmp/nginx/scgi;
    client_max_body_size 0;
    proxy_cache_path /run/tmp/nginx/cache keys_zone=blobs:1m use_temp_path=off;
    proxy_http_version 1.1;
    proxy_set_header Connection '';
    # It is signed.
    proxy_set_header Host \$http_host;
    upstream weed { server 10.0.0.9:8333; keepalive 16; }
    server {
        listen 10.0.0.9:8000;
        location / { proxy_pass http://weed; }
        # Blobs, and nothing that changes: whoever overwrites or deletes would read what was.
        location ~ ^/store/blobwise-[^/]+/b/ {
            proxy_pass http://weed;
            proxy_cache blobs;
            # Without the signature, which no two requests share.
            proxy_cache_key \$uri;
            proxy_cache_valid 200 1h;
            proxy_ignore_headers Cache-Control Expires Set-Cookie Vary;
        }
    }
}
END
    as_nobody "$NGINX" -p /run/tmp/nginx -c /run/tmp/nginx/nginx.conf >/run/tmp/nginx.log 2>&1 &
    ready nginx 8000
}

far() {
    ip netns exec h2 "$PROXY" proxy 6379 10.0.0.9:6379 20 &
    echo '127.0.0.1 server' >/run/tmp/hosts.h2
}

slow() { tc -n switch qdisc add dev p3 root tbf rate 5mbit burst 16kb latency 1s; }

ahead() { export AHEAD='--time --monotonic 3600 --boottime 3600 --fork --kill-child'; }

for server in $servers; do "$server"; done

cat >/run/tmp/agent <<'END'
#!/bin/sh
host="h${1##*.}"
shift
if [ "$host" = h3 ]; then hide="mount -t tmpfs none '$HIDDEN';" ahead="${AHEAD:-}"; fi
exec ip netns exec "$host" unshare --uts --mount ${ahead:-} \
    sh -c "hostname $host; mount --bind /run/tmp/hosts.$host /etc/hosts; ${hide:-} $*"
END
chmod +x /run/tmp/agent
export HIDDEN="$home"

exec ip netns exec h1 unshare --uts --mount \
    sh -c 'hostname h1; mount --bind /run/tmp/hosts.h1 /etc/hosts; exec mpirun "$@"' mpirun --allow-run-as-root --bind-to none \
    --mca plm_rsh_agent /run/tmp/agent --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
    -H "$all" -n "$hosts" "$@"
