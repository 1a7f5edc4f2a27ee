#!/bin/sh
# The init process of the test image. It does what cloud-init does with a NoCloud seed, as far as the tests need it: hostname,
# user, SSH keys, and user data that is a script. Then it serves SSH.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
cd /modules
for pass in 1 2 3 4; do # a module can be inserted after its dependencies
  for module in *.ko; do insmod "$module" 2>/dev/null; done
done
cat >/run/dhcp <<'END'
#!/bin/sh
[ "$1" = bound ] || exit 0
ip address add "$ip/$mask" dev "$interface"
ip route add default via "$router"
END
chmod 755 /run/dhcp
ip link set lo up
ip link set eth0 up
udhcpc -q -n -i eth0 -s /run/dhcp -t 10 -T 1 >/dev/null

echo "root:x:0:0:root:/root:/bin/sh" >/etc/passwd
echo "root:x:0:" >/etc/group
echo /bin/sh >/etc/shells
seed=/dev/vdb
if mount -r -t iso9660 "$seed" /mnt; then
  hostname "$(sed -n 's/^local-hostname: *"*\([^"]*\)"*$/\1/p' /mnt/meta-data)"
  user=$(sed -n 's/^ *- name: *"*\([^"]*\)"*$/\1/p' /mnt/vendor-data | head -1)
  home=/root
  if [ -n "$user" ] && [ "$user" != root ]; then
    home=/home/$user
    mkdir -p "$home"
    echo "$user:x:1000:1000::$home:/bin/sh" >>/etc/passwd
    echo "$user:x:1000:" >>/etc/group
  fi
  mkdir -p "$home/.ssh"
  sed -n 's/^ *- *"*\(\(ssh-\|ecdsa-\)[^"]*\)"*$/\1/p' /mnt/vendor-data >"$home/.ssh/authorized_keys"
  chmod -R go= "$home"
  if [ -n "$user" ] && [ "$user" != root ]; then chown -R 1000:1000 "$home"; fi
  if head -c 2 /mnt/user-data | grep -q '#!'; then
    cp /mnt/user-data /run/user-data
    chmod 755 /run/user-data
    /run/user-data
  fi
fi
dropbearkey -t ed25519 -f /etc/dropbear/dropbear_ed25519_host_key >/dev/null 2>&1
dropbearkey -t ecdsa -f /etc/dropbear/dropbear_ecdsa_host_key >/dev/null 2>&1
echo "guest is ready: $(hostname)"
dropbear -F -E -s
echo "guest ends"
poweroff -f
