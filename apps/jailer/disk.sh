#!/bin/sh
# An ext4 image of a folder, without mounting anything:
#
#   apps/jailer/disk.sh FOLDER IMAGE
#
# For a disk that is only read: no journal, no room to spare. The same folder
# gives the same bytes.
set -eu

folder=${1:?usage: disk.sh FOLDER IMAGE}
image=${2:?usage: disk.sh FOLDER IMAGE}
# What du counts, an inode for each file, and a tenth for directories and tables: inodes
# are shared out among groups of blocks, and a folder's files want theirs nearby.
files=$(find "$folder" | wc -l)
kib=$(du -sk --apparent-size "$folder" | cut -f 1)
kib=$(((kib + files * 3) * 11 / 10 + 4096))
rm -f "$image"
E2FSPROGS_FAKE_TIME=1 SOURCE_DATE_EPOCH=1 mkfs.ext4 -q -F -m 0 -N $((files * 11 / 10 + 256)) -L code-jail \
  -O ^has_journal,^resize_inode,^metadata_csum -U 00000000-0000-4000-8000-000000000000 \
  -E hash_seed=00000000-0000-4000-8000-000000000000,lazy_itable_init=0,root_owner=0:0 \
  -d "$folder" "$image" "${kib}k" >/dev/null
