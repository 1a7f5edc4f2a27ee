#!/bin/bash
# Boots systemd as the first process of a machine: separate namespaces, with an overlay in memory over the files of the
# host. It changes nothing on the host. The machine ends with this process, or with systemd.
#
#   lab.sh DIRECTORY
#
# DIRECTORY must be empty; DIRECTORY/root has the files of the machine, visible in its namespace only. Needs root and
# systemd.
set -euo pipefail
if [ "${2:-}" != inside ]; then
  exec unshare --mount --pid --uts --ipc --net --cgroup --fork --kill-child -- "$0" "$1" inside
fi
dir=$1

mount --make-rprivate /
mount -t tmpfs lab "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" lab "$dir/root"
cd "$dir/root"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for at in dev run tmp var/tmp; do mount -t tmpfs -o mode=755 lab $at; done
chmod 1777 tmp var/tmp
while read -r name major minor; do mknod -m 666 "dev/$name" c "$major" "$minor"; done <<'END'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
END
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=1777 lab dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd

# Units and mounts of the host must not be active in the machine. With a machine ID, systemd boots without first-boot questions.
rm -rf etc/systemd/system
mkdir etc/systemd/system
ln -s /dev/null etc/systemd/system/systemd-modules-load.service
: >etc/fstab
tr -d - </proc/sys/kernel/random/uuid >etc/machine-id
hostname lab
ip link set lo up

exec env -i container=lab PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . /lib/systemd/systemd --system --unit=multi-user.target
