#!/usr/bin/env bash
# Makes what people install, and tries it.
#
#   ./package.sh            into target/package: a .deb, a wheel, an archive for `cargo binstall`, their checksums
#   ./package.sh --check    the same; then installs each into a bare Debian and runs a short measurement there (as root)
#
# The program is built once, inside the wheel, and is the same file in all three. Zig links it to an old glibc, whatever the machine has.
#
#   BLOBWISE_SUITE=bullseye    the release of Debian that is the bare one: the oldest that can be had shows most
set -euo pipefail
umask 022
cd "$(dirname "$0")"

readonly glibc=2.28 limit_bytes=20000000
out="${CARGO_TARGET_DIR:-target}/package"
mkdir -p "$out"
out="$(realpath "$out")"
tools="$out/tools"
version="$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)"
target="$(rustc -vV | sed -n 's/^host: //p')"
case "$target" in
    x86_64-unknown-linux-gnu) architecture=amd64 ;;
    aarch64-unknown-linux-gnu) architecture=arm64 ;;
    *) echo "error: no packages are made on $target: only on x86_64 and aarch64 with glibc" >&2; exit 2 ;;
esac
whole="blobwise-$version-$target"
# Two builds of one commit have the same dates.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}"
export SOURCE_DATE_EPOCH

say() { printf '\n== %s (after %d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)) >&2; }
fail() { echo "error: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || fail "no \`$1\`, which $2: apt-get install $3"; }

# One at a time: what another left that was killed is nobody's.
exec {alone}>"$out/lock"
flock --nonblock "$alone" || fail "another ./package.sh is at work in $out"
rm -rf --one-file-system "$out"/draft.*
draft="$(mktemp -d "$out/draft.XXXXXX")"
trap 'rm -rf --one-file-system "$draft"' EXIT

# ---- the program ---------------------------------------------------------------------------------------------------

# Both are programs in wheels, and have a directory of their own.
install_tools() {
    local wanted="maturin==1.16.0 ziglang==0.17.1"
    [[ "$(cat "$tools/made-of" 2>/dev/null)" == "$wanted" ]] && return 0
    say "Fetching $wanted"
    rm -rf "$tools"
    python3 -m venv "$tools" || fail "no environment for Python's programs: apt-get install python3-venv"
    # shellcheck disable=SC2086 -- several requirements
    "$tools/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: $wanted
    echo "$wanted" >"$tools/made-of"
}

# The licences of all that is linked in, which ask to be passed on: each text once, under the names of those who have it.
notices() {
    cargo metadata --locked --format-version 1 --filter-platform "$target" >"$draft/metadata"
    python3 - "$draft/metadata" >LICENSE-THIRD-PARTY <<'PYTHON'
import collections, json, pathlib, sys

metadata = json.loads(pathlib.Path(sys.argv[1]).read_text())
packages = {package["id"]: package for package in metadata["packages"]}
needs = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
linked, ahead = set(), [metadata["resolve"]["root"]]
while ahead:
    for need in needs[ahead.pop()]:
        # Neither what builds nor what tests is in the program.
        if need["pkg"] not in linked and any(kind["kind"] is None for kind in need["dep_kinds"]):
            linked.add(need["pkg"])
            ahead.append(need["pkg"])
print("blobwise has the following in it, and Rust's standard library (MIT or Apache-2.0).\n")
texts = collections.defaultdict(list)
others = linked - set(metadata["workspace_members"])
for package in sorted((packages[one] for one in others), key=lambda package: (package["name"], package["version"])):
    name = f"{package['name']} {package['version']}"
    print(f"{name}: {package['license'] or 'see its text'}")
    for path in sorted(pathlib.Path(package["manifest_path"]).parent.rglob("*")):
        if path.is_file() and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE")):
            texts[path.read_text(errors="replace").strip()].append(name)
for text, names in texts.items():
    print(f"\n{'-' * 80}\n{', '.join(dict.fromkeys(names))}\n{'-' * 80}\n\n{text}")
PYTHON
}

# Builds the wheel, and takes the program out of it.
build() {
    say "Building blobwise $version for $target and glibc $glibc"
    # Where the sources lay is nobody's business, and the same everywhere.
    local cargo="${CARGO_HOME:-$HOME/.cargo}"
    PATH="$tools/bin:$PATH" RUSTFLAGS="--remap-path-prefix=$cargo=cargo --remap-path-prefix=$PWD=blobwise ${RUSTFLAGS:-}" \
        maturin build --quiet --zig --target "$target" --compatibility "manylinux_${glibc/./_}" --out "$draft/wheel"
    wheel="$(echo "$draft"/wheel/*.whl)"
    "$tools/bin/python" -m zipfile -e "$wheel" "$draft/unpacked"
    program="$draft/blobwise"
    install -m 755 "$draft"/unpacked/*.data/scripts/blobwise "$program"
}

# What is not as it is promised here is not packed.
look_at_program() {
    local asked newest libraries bytes
    asked="$(objdump -T "$program" | grep -oE 'GLIBC_[0-9.]+\)? +\S+' | tr -d ')' | sort -V)"
    newest="$(tail -n 1 <<<"$asked" | grep -oE '[0-9.]+' | head -n 1)"
    [[ "$(printf '%s\n' "$newest" "$glibc" | sort -V | tail -n 1)" == "$glibc" ]] ||
        fail "the program asks for a glibc of $newest: $(tail -n 3 <<<"$asked" | tr -s '\n ' ' ')"
    # All of these are glibc's own.
    libraries="$(objdump -p "$program" | sed -n 's/^ *NEEDED *//p' | grep -vE '^(lib(c|m|pthread|dl|rt|util)\.so|ld-linux)' || true)"
    [[ -z "$libraries" ]] || fail "the program needs other libraries than glibc: $libraries"
    bytes="$(stat -c %s "$program")"
    ((bytes <= limit_bytes)) || fail "the program has $bytes bytes, and may have $limit_bytes"
    echo "$bytes bytes, glibc $newest" >&2
}

# ---- packages ------------------------------------------------------------------------------------------------------

# What an archive has beside the program: the program says all of it itself.
pages() {
    local shell
    "$program" man "$draft/man"
    for shell in bash zsh fish; do "$program" completions "$shell" >"$draft/$shell"; done
}

archive() {
    local tree="$draft/$whole"
    install -D -m 755 "$program" "$tree/blobwise"
    install -D -m 644 -t "$tree" LICENSE LICENSE-THIRD-PARTY CHANGELOG.md
    install -D -m 644 -t "$tree/man" "$draft"/man/*.1
    install -D -m 644 "$draft/bash" "$tree/completions/blobwise.bash"
    install -D -m 644 "$draft/zsh" "$tree/completions/_blobwise"
    install -D -m 644 "$draft/fish" "$tree/completions/blobwise.fish"
    tar -C "$draft" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cJf "$draft/$whole.tar.xz" "$whole"
}

deb() {
    local tree="$draft/deb" maintainer="${DEBFULLNAME:-The authors of blobwise} <${DEBEMAIL:-nobody@blobwise.invalid}>"
    local share="$tree/usr/share"
    install -D -m 755 "$program" "$tree/usr/bin/blobwise"
    install -D -m 644 -t "$share/man/man1" "$draft"/man/*.1
    install -D -m 644 "$draft/bash" "$share/bash-completion/completions/blobwise"
    install -D -m 644 "$draft/zsh" "$share/zsh/vendor-completions/_blobwise"
    install -D -m 644 "$draft/fish" "$share/fish/vendor_completions.d/blobwise.fish"
    install -D -m 644 LICENSE "$share/doc/blobwise/copyright"
    install -D -m 644 -t "$share/doc/blobwise" LICENSE-THIRD-PARTY
    install -D -m 644 CHANGELOG.md "$share/doc/blobwise/NEWS.md"
    printf 'blobwise (%s) unstable; urgency=medium\n\n  * See NEWS.md.gz.\n\n -- %s  %s\n' \
        "$version" "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$share/doc/blobwise/changelog"
    gzip -9n "$share"/man/man1/*.1 "$share"/doc/blobwise/{changelog,NEWS.md,LICENSE-THIRD-PARTY}
    mkdir "$tree/DEBIAN"
    (cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
    cat >"$tree/DEBIAN/control" <<CONTROL
Package: blobwise
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -k -s --apparent-size "$tree/usr" | cut -f 1)
Depends: libc6 (>= $glibc)
Suggests: postgresql, mariadb-server, redis-server, memcached, nginx-light
Section: utils
Priority: optional
Description: measures where your files should live
 Puts the same blobs through directories, embedded stores, databases, caches,
 object stores and web servers, with the same operations on one machine. Says
 which place is best, what it costs, and how sure that is.
CONTROL
    dpkg-deb --root-owner-group -Zxz --build "$tree" "$draft/blobwise_${version}_$architecture.deb" >&2
}

# Only what is whole gets its name: a package of an earlier call is replaced, or stays.
publish() {
    local made=("$wheel" "$draft/$whole.tar.xz" "$draft/blobwise_${version}_$architecture.deb")
    mv "${made[@]}" "$out"
    wheel="$out/${wheel##*/}"
    (cd "$out" && sha256sum "${made[@]##*/}" >"$draft/sums" && mv "$draft/sums" SHA256SUMS && stat -c '%10s  %n' "${made[@]##*/}") >&2
}

# ---- are they what they should be ----------------------------------------------------------------------------------

# What is done in the bare root has its own mounts and processes, which end with it however it ends.
in_root() {
    unshare --mount --pid --fork --kill-child bash -euc '
        mount --bind "$0" "$0"
        mount -t proc proc "$0/proc"
        mount -t sysfs -o ro sysfs "$0/sys"
        exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' \
        "$root" "$@"
}

make_root() {
    local suite="${BLOBWISE_SUITE:-bullseye}"
    root="$draft/root"
    say "A bare Debian: $suite"
    mkdir -p "$out/debs"
    unshare --mount debootstrap --variant=minbase --cache-dir="$out/debs" "$suite" "$root" >"$draft/debootstrap" 2>&1 ||
        fail "no bare $suite: $(tail -n 1 "$draft/debootstrap"); another is BLOBWISE_SUITE=bookworm"
    root_libc="$(in_root ldd --version | sed -n '1s/.* //p')"
    echo "glibc $root_libc" >&2
}

# A short run of the default stores, by the program of this path, and what came of it.
main_job() {
    local name=$1 path=$2
    [[ "$(in_root "$path" --version)" == "blobwise $version" ]] || fail "$name: another version"
    cmp "$root$path" "$program" || fail "$name: another program"
    in_root "$path" run --blobs 40 --rounds 2 --phases fill,read-warm,overwrite --dir /root --out "/root/$name" >"$draft/said" 2>"$draft/progress" ||
        fail "$name: the run failed: $(tail -n 5 "$draft/said" "$draft/progress")"
    python3 - "$root/root/$name" "glibc $root_libc" <<'PYTHON' || fail "$name: not what a run leaves"
import json, pathlib, sys

run, libc = pathlib.Path(sys.argv[1]), sys.argv[2]
result = json.loads((run / "result.json").read_text())
assert result["machine"]["libc"] == libc, result["machine"]
assert result["complete"], "the run is not complete"
states = {candidate["store"]: candidate["status"] for candidate in result["candidates"]}
assert {"files/hashed", "sqlite", "lmdb", "redb", "fjall"} <= states.keys(), states
assert set(states.values()) == {"measured"}, states
assert "</html>" in (run / "report.html").read_text()
PYTHON
    head -n 14 "$draft/said" >&2
}

check_archive() {
    say "The archive, as cargo binstall unpacks it"
    # Its metadata name this file and the program in it.
    python3 - "$version" "$target" "$out/$whole.tar.xz" <<'PYTHON'
import sys, tarfile, re

version, target, archive = sys.argv[1:]
keys = dict(re.findall(r'^(pkg-url|bin-dir|pkg-fmt) = "(.*)"$', open("Cargo.toml").read(), re.M))
values = {"repo": "", "name": "blobwise", "version": version, "target": target, "bin": "blobwise", "binary-ext": ""}
filled = {key: re.sub(r"\{ ([a-z-]+) \}", lambda name: values[name[1]], text) for key, text in keys.items()}
assert filled["pkg-url"].rsplit("/", 1)[1] == archive.rsplit("/", 1)[1], filled
assert filled["pkg-fmt"] == "txz", filled
assert tarfile.open(archive).getmember(filled["bin-dir"]).mode == 0o755, filled
PYTHON
    tar -C "$root/opt" -xJf "$out/$whole.tar.xz"
    main_job archive "/opt/$whole/blobwise"
}

check_deb() {
    say "The .deb"
    local file="blobwise_${version}_$architecture.deb" left
    cp "$out/$file" "$root/root/"
    in_root dpkg -i "/root/$file" >&2
    in_root bash -euc 'dpkg --verify blobwise
        commands=$(blobwise --help | sed -n "/^Options:/q; s/^  \([a-z]\+\) .*/-\1/p")
        (($(wc -l <<<"$commands") > 10))
        for name in "" $commands; do
            zcat "/usr/share/man/man1/blobwise$name.1.gz" | grep -q "^.TH"
        done
        . /usr/share/bash-completion/completions/blobwise && complete -p blobwise' >&2
    main_job deb /usr/bin/blobwise
    in_root dpkg --purge blobwise >&2
    left="$(find "$root/usr" "$root/etc" "$root/var/lib" -name '*blobwise*')"
    [[ -z "$left" ]] || fail "the .deb leaves behind: $left"
}

check_wheel() {
    say "The wheel"
    in_root apt-get -qq -o Acquire::Check-Valid-Until=false update >"$draft/apt" 2>&1 &&
        in_root apt-get -qq -y install --no-install-recommends python3-venv >>"$draft/apt" 2>&1 ||
        fail "no Python in the bare root: $(tail -n 3 "$draft/apt")"
    cp "$wheel" "$root/root/"
    in_root python3 -m venv /opt/venv
    in_root /opt/venv/bin/pip install --quiet --disable-pip-version-check --no-index "/root/${wheel##*/}"
    main_job wheel /opt/venv/bin/blobwise
    in_root /opt/venv/bin/pip uninstall --quiet --yes blobwise
    [[ ! -e "$root/opt/venv/bin/blobwise" ]] || fail "the wheel leaves its program behind"
}

# ---- all of it -----------------------------------------------------------------------------------------------------

# The whole script is read before any of it is done, so that it may be changed meanwhile.
main() {
    case "${1:-}" in
        "") ;;
        --check)
            ((EUID == 0)) || fail "the bare root of --check needs root"
            need debootstrap "makes a bare root" debootstrap
            need unshare "gives it mounts of its own" util-linux
            ;;
        *) echo "error: \`$1\` is not known: ./package.sh [--check]" >&2; exit 2 ;;
    esac
    need python3 "fetches maturin and Zig" python3-venv
    need objdump "looks at the program" binutils
    need dpkg-deb "makes the .deb" dpkg
    need xz "packs the archive" xz-utils

    install_tools
    notices
    build
    look_at_program
    say "Packing"
    pages
    archive
    deb
    publish
    if [[ "${1:-}" == --check ]]; then
        make_root
        check_archive
        check_deb
        check_wheel
        say "All of them run where nothing else is"
    fi
}

main "$@"
exit
