#!/bin/sh
# Assembles the sandbox image's whole root file system in an empty folder:
#
#   apps/sandbox/rootfs.sh OUT [NODE]
#
# Node and python3 with the libraries that they really need, code-jail with its
# native build, and nothing else: no shell, no package manager, nothing that is
# writable by everybody. The Dockerfile runs it in its build stage; a test runs
# the very same and starts the service in it under gVisor. NODE: the node to
# ship, by default the one in PATH. Needs a built code-jail (npm run setup), and
# PYTHON (default /usr/bin/python3) as a distribution installs it.
set -eu

out=${1:?usage: rootfs.sh OUT [NODE]}
node=$(readlink -f "${2:-$(command -v node)}")
python=$(readlink -f "${PYTHON:-/usr/bin/python3}")
package=$(cd "$(dirname "$0")/../.." && pwd)

if [ -e "$out" ] && [ -n "$(ls -A "$out")" ]; then
  echo "rootfs.sh: $out is not empty" >&2
  exit 1
fi
umask 022
mkdir -p "$out"

# ---- what programs and extensions are linked with, under the names they ask for ----

libraries() { # of a program or an extension: the files that the loader finds
  { ldd "$1" 2>/dev/null || true; } | sed -n -e 's|.* => \(/[^ ]*\) (.*|\1|p' -e 's|^[[:space:]]*\(/[^ ]*ld-[^ ]*\) (.*|\1|p'
}

put() { # a file, followed through its links, to the place where it was found
  mkdir -p "$out$(dirname "$1")"
  [ -e "$out$1" ] || cp -L "$1" "$out$1"
}

# ---- python ----

stdlib=$("$python" -I -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
mkdir -p "$out/usr/bin" "$out$stdlib"
cp "$python" "$out/usr/bin/python3"
(cd "$stdlib" && find . \( -name __pycache__ -o -name test -o -name tests -o -name idlelib -o -name tkinter \
  -o -name turtledemo -o -name lib2to3 -o -name ensurepip -o -name 'config-*' -o -name pydoc_data \
  -o -name dist-packages -o -name site-packages \) -prune -o -type f -print) |
  (cd "$stdlib" && tar -chf - -T -) | tar -xf - -C "$out$stdlib"
# A zygote boots in half the time when the standard library is compiled.
"$python" -I -m compileall -q --invalidation-mode unchecked-hash "$out$stdlib" -s "$out" >/dev/null 2>&1 || true

# ---- node, and code-jail ----

printf '%s\n%s\n' "$node" "$python" >"$out/.programs"
mkdir -p "$out/usr/local/bin" "$out/app"
cp "$node" "$out/usr/local/bin/node"
app=$out/app
mkdir -p "$app/build/Release" "$app/apps/sandbox" "$app/bin"
cp "$package/package.json" "$package/LICENSE" "$app/"
cp -r "$package/lib" "$app/lib"
cp "$package/bin/code-jail.js" "$app/bin/"
cp "$package/apps/sandbox/start.js" "$package/apps/sandbox/package.json" "$app/apps/sandbox/"
for file in code_jail.node guest_node.node guest_python.so code-jail-keeper code-jail-launcher; do
  cp "$package/build/Release/$file" "$app/build/Release/"
done
(cd "$package" && node scripts/production-modules.js) | (cd "$package" && tar -cf - -T -) | tar -xf - -C "$app"

# ---- libraries; glibc opens libgcc_s by its name when a thread ends ----

find "$out$stdlib" "$app" \( -name '*.so' -o -name '*.node' \) -print | cat - "$out/.programs" |
  while read -r file; do
    libraries "$file"
  done | sort -u | while read -r file; do
  put "$file"
done
rm "$out/.programs"
gcc_s=$(ldconfig -p 2>/dev/null | sed -n 's|.*libgcc_s.so.1 .* => \(.*\)|\1|p' | head -n 1)
[ -z "$gcc_s" ] || put "$gcc_s"
[ ! -d /usr/share/zoneinfo ] || (mkdir -p "$out/usr/share" && cp -r /usr/share/zoneinfo "$out/usr/share/zoneinfo")

# ---- the rest of a Unix ----

mkdir -p "$out/etc" "$out/proc" "$out/sys" "$out/dev" "$out/run" "$out/var" "$out/cell"
mkdir -p "$out/tmp" # 0755, not for everybody: what one cell leaves there another would find
printf 'root:x:0:0::/:/bin/false\nsandbox:x:65532:65532::/:/bin/false\n' >"$out/etc/passwd"
printf 'root:x:0:\nsandbox:x:65532:\n' >"$out/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$out/etc/nsswitch.conf"
printf '127.0.0.1 localhost\n' >"$out/etc/hosts"
chmod -R go-w "$out"
