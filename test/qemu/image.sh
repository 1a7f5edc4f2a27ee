#!/bin/bash
# Builds a small disk image that boots in a few seconds without KVM: the Debian cloud kernel, and an initramfs with busybox,
# dropbear and guest.sh, started by syslinux. Nothing is installed on the host; the packages come from its Debian mirror.
# Usage: image.sh FILE.qcow2
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work"
chmod 755 .

kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p' | head -1)
mkdir debs root kernel tools
chmod 777 debs
(cd debs && apt-get download -q "$kernel" busybox-static dropbear-bin libgmp10 libtomcrypt1 libtommath1 libc6 libcrypt1 zlib1g syslinux syslinux-common mtools) >&2
for package in busybox-static dropbear-bin libgmp10 libtomcrypt1 libtommath1 libc6 libcrypt1 zlib1g; do dpkg-deb -x debs/"${package}"_*.deb root; done
for package in syslinux syslinux-common mtools; do dpkg-deb -x debs/"${package}"_*.deb tools; done
dpkg-deb -x debs/"$kernel"_*.deb kernel
PATH=$work/tools/usr/bin:$PATH

# The initramfs has only the files that guest.sh needs.
rm -rf root/usr/share root/usr/bin/dbclient root/usr/lib/x86_64-linux-gnu/gconv root/lib/x86_64-linux-gnu/gconv
mkdir -p root/{dev,proc,sys,mnt,run,tmp,root,home,modules,etc/dropbear}
for module in failover net_failover virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_net virtio_blk virtio-rng cdrom isofs; do
  find kernel/lib/modules -name "$module.ko*" -exec cp {} root/modules/ \;
done
cp "$here/guest.sh" root/init
chmod 755 root/init
ln -sf busybox root/bin/sh
(cd root && find . | ./bin/busybox cpio -o -H newc 2>/dev/null | gzip -1) >initrd.gz

# One FAT file system without partitions; its boot sector is that of syslinux.
cat >syslinux.cfg <<'END'
default linux
prompt 0
timeout 0
label linux
  kernel vmlinuz
  initrd initrd.gz
  append console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable
END
truncate -s 48M disk.raw
mformat -i disk.raw -T $((48 * 2048)) -h 16 -s 63 ::
mcopy -i disk.raw kernel/boot/vmlinuz-* ::vmlinuz
mcopy -i disk.raw initrd.gz syslinux.cfg ::
syslinux --install disk.raw
qemu-img convert -q -f raw -O qcow2 -c disk.raw disk.qcow2
mv disk.qcow2 "$image"
