#!/bin/sh
# The root file system of a microVM, as a disk image that is only ever read:
#
#   apps/jailer/rootfs.sh IMAGE [NODE]
#
# The sandbox image's files (apps/sandbox/rootfs.sh: node, python3, code-jail) and
# our agent, which is its first program. Prints the image's sha256, for the
# operator to pin. Needs a built code-jail (npm run setup), mkfs.ext4, and root:
# the files in it are root's.
set -eu

image=${1:?usage: rootfs.sh IMAGE [NODE]}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/../sandbox/rootfs.sh" "$work/root" "${2:-$(command -v node)}"
cp "$here/../../build/Release/code-jail-agent" "$work/root/agent"
find "$work/root" -exec touch -h -d @1 {} + # the same files, the same image
"$here/disk.sh" "$work/root" "$image"
sha256sum "$image" | cut -d ' ' -f 1
