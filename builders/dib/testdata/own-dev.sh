#!/bin/sh
# Runs a command with a /dev of its own, as root:   own-dev.sh go test …
#
# diskimage-builder binds /dev into its chroot. When a test stops it half way, a mistake in clearing up could delete
# through that mount; the machine's /dev is one devtmpfs wherever it is mounted, so it would be gone for everybody. In
# here /dev is a tmpfs with copies of the nodes that a build needs, in a mount namespace of its own.
set -eu
if [ "${OWN_DEV:-}" != inside ]; then
	OWN_DEV=inside exec unshare --mount --propagation private "$0" "$@"
fi
new=$(mktemp -d)
mount -t tmpfs -o mode=755 own-dev "$new"
for node in null zero full random urandom tty ptmx console kmsg loop-control $(cd /dev && ls -d loop[0-9]* 2> /dev/null); do
	[ -e "/dev/$node" ] && cp -a "/dev/$node" "$new/$node"
done
mkdir "$new/pts" "$new/shm" "$new/mapper"
ln -s /proc/self/fd "$new/fd"
ln -s /proc/self/fd/0 "$new/stdin"
ln -s /proc/self/fd/1 "$new/stdout"
ln -s /proc/self/fd/2 "$new/stderr"
mount -t devpts -o ptmxmode=666 devpts "$new/pts"
mount -t tmpfs -o mode=1777 shm "$new/shm"
mount --move "$new" /dev
rmdir "$new"
exec "$@"
