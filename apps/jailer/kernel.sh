#!/bin/sh
# A guest kernel from a distribution's package, for those who do not build their
# own: unpacks it, and makes an initrd of our /init (src/agent/initrd.c) and the
# modules that a guest needs, in the order in which they depend on each other.
#
#   apps/jailer/kernel.sh PACKAGE OUT [SHA256]
#
# PACKAGE: Debian's linux-image-VERSION-cloud-amd64 as a file (apt-get download).
# SHA256: what it must be; the operator's own pin. OUT gets vmlinuz and initrd.
# Needs a built code-jail (npm run setup), dpkg-deb, cpio and gzip.
set -eu

package=${1:?usage: kernel.sh PACKAGE OUT [SHA256]}
out=${2:?usage: kernel.sh PACKAGE OUT [SHA256]}
build=$(cd "$(dirname "$0")/../.." && pwd)/build/Release
wanted='virtio_mmio virtio_blk virtio_console vmw_vsock_virtio_transport vsock_loopback virtio-rng'

if [ $# -ge 3 ] && [ "$(sha256sum "$package" | cut -d ' ' -f 1)" != "$3" ]; then
  echo "kernel.sh: $package is not the file with sha256 $3" >&2
  exit 1
fi
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dpkg-deb -x "$package" "$work/package"
cp "$work"/package/boot/vmlinuz-* "$out/vmlinuz"

mkdir -p "$work/initrd/modules"
cp "$build/code-jail-initrd" "$work/initrd/init"
number=10
add() { # a module after those that it depends on
  file=$(find "$work/package" -name "$1.ko" -o -name "$(echo "$1" | tr _ -).ko" | head -n 1)
  [ -n "$file" ] || return 0 # built in
  if find "$work/initrd/modules" -name "*-$1" | grep -q .; then return 0; fi
  depends=$(tr '\0' '\n' <"$file" | sed -n 's/^depends=//p' | tr , ' ')
  for one in $depends; do add "$one"; done
  # sh has no locals: what the loop above did to "file" is undone here.
  file=$(find "$work/package" -name "$1.ko" -o -name "$(echo "$1" | tr _ -).ko" | head -n 1)
  cp "$file" "$work/initrd/modules/$number-$1"
  number=$((number + 1))
}
for module in $wanted; do add "$module"; done
(cd "$work/initrd" && find . | sort | cpio --quiet -o -H newc -R 0:0 | gzip -9) >"$out/initrd"
