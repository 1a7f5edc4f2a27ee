#!/bin/bash
# Measures uploads of the same bytes with dd, with the openstack client and with npctl in one run: duration, and number of
# reads of each byte. Prints a table. Needs Go, python3 (for the client) and qemu-img.
#
#   NPCTL            the npctl to measure (default bin/npctl)
#   MIB              size of the image in MiB (default 1024); TMPDIR needs three times the space
#   REPEAT           number of measurements of each command; the fastest counts (default 3)
#   NPCTL_OPENSTACK  the client to use; without it one is installed from PyPI
#
# Two clouds receive the bytes. Glance of the "sink" discards them, so the figures show the client and the socket. Glance
# of the "emulator" hashes them like the real one, in one process on the same machine. Sockets are loopback sockets without
# TLS. "reads" is the number of bytes in read calls of files for each byte sent; "disk" is the part that came from the disk
# and not from the page cache; "cpu" is the CPU time of the process and its children.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/openstack/lib/apt.sh

mib=${MIB:-1024} repeat=${REPEAT:-3} bytes=$((${MIB:-1024} << 20))
npctl=$(realpath "${NPCTL:-bin/npctl}")
[ -x "$npctl" ] || { echo "$npctl is not there: run make build" >&2; exit 1; }
command -v qemu-img >/dev/null || apt_install qemu-utils
NPCTL_OPENSTACK=${NPCTL_OPENSTACK:-$(test/lib/venv.sh openstackclient python-openstackclient)/bin/openstack}

work=$(mktemp -d "${TMPDIR:-/tmp}/npctl-bench.XXXXXX")
pids=()
cleanup() {
	[ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
	wait
	rm -rf "$work"
}
trap cleanup EXIT

wait_for() { # file: waits until it has content
	local tries=0
	until [ -s "$1" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 200 ] || { echo "uploads.sh: $1 never came" >&2; exit 1; }
		sleep 0.1
	done
}

go build -o "$work/bin/" ./test/bench/sink ./test/emulator
"$work/bin/sink" "$work/sink.yaml" >"$work/port" &
pids+=($!)
"$work/bin/emulator" -write-clouds="$work/emulator.yaml" 2>/dev/null &
pids+=($!)
wait_for "$work/port"
wait_for "$work/emulator.yaml"
port=$(cat "$work/port")

# The image: bytes that do not compress and are not zero, so that every byte is sent.
image=$work/image.raw
head -c "$bytes" /dev/urandom >"$image"
sync "$image"

# run measures one command in a shell of its own: seconds, bytes read, bytes from the disk, CPU seconds.
run() {
	(
		TIMEFORMAT='%R %U %S'
		{ time "$@" >"$work/out" 2>&1; } 2>"$work/time" || { cat "$work/out" >&2; exit 1; }
		read_all=0 read_disk=0
		while read -r key value; do
			case $key in rchar:) read_all=$value ;; read_bytes:) read_disk=$value ;; esac
		done <"/proc/$BASHPID/io"
		read -r real user system <"$work/time"
		echo "$real $read_all $read_disk $(awk "BEGIN { print $user + $system }")"
	)
}

# row measures a command several times and prints the fastest: name, bytes sent, action before each measurement, command.
row() {
	local name=$1 sent=$2 before=$3 best= line
	shift 3
	for _ in $(seq "$repeat"); do
		$before
		line=$(run "$@")
		[ -n "$best" ] && awk -v a="${line%% *}" -v b="${best%% *}" 'BEGIN { exit !(a >= b) }' || best=$line
	done
	echo "$best" | awk -v name="$name" -v sent="$sent" \
		'{ printf "| %-70s | %6.2f | %6.0f | %5.2f | %5.2f | %5.1f |\n", name, $1, sent / $1 / 1e6, $2 / sent, $3 / sent, $4 }'
}

nothing() { :; }
cold() { # drops the images from the page cache
	local file
	for file in "$image" "$work"/*/images/*.raw "$work"/*/images/*.qcow2; do
		[ -e "$file" ] && dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none
	done
}

# place writes a configuration that uploads the image to the providers (NAME:FORMAT), and builds the image.
place() { # directory, clouds.yaml, provider...
	local name=$1 at=$work/$1 clouds=$2 p
	shift 2
	mkdir "$at"
	cp "$clouds" "$at/clouds.yaml"
	{
		cat <<-END
			npctl {
			  images_dir = "images"
			}
			diskimage "big" {
			  builder "exec" {
			    command = ["sh", "-c", "cp '$image' \"\$NPCTL_OUTPUT.raw\""]
			    formats = ["raw"]
			  }
			}
			label "big" {}
		END
		for p; do
			cat <<-END
				provider "openstack" "${p%:*}" {
				  cloud        = "emulator"
				  image_format = "${p#*:}"
				  pool "main" {
				    host_key_checking = false
				    networks          = ["private"]
				    label "big" {
				      image  = diskimage.big
				      flavor = "small"
				    }
				  }
				}
			END
		done
	} >"$at/npctl.hcl"
	local excludes=("${@%:*}")
	excludes=("${excludes[@]/#/-exclude=provider.}")
	built "$name" "${excludes[@]}"
}

in_place() { # directory, arguments of npctl
	local at=$work/$1
	shift
	(cd "$at" && OS_CLIENT_CONFIG_FILE=$at/clouds.yaml exec "$npctl" "$@")
}

# built builds the files and keeps the state, from which each upload starts.
built() { # directory, address to exclude
	in_place "$1" apply -auto-approve "${@:2}" >/dev/null 2>"$work/out" || { cat "$work/out" >&2; exit 1; }
	sync "$work/$1"/images/*
	cp "$work/$1/npctl.db" "$work/$1/built.db"
}

as_built() { cp "$work/$1/built.db" "$work/$1/npctl.db"; }

# Each measurement starts with the state after the build: the clouds contain earlier uploads, which have no records.
one() { as_built one; }
one_cold() { one; cold; }
three() { as_built three; }
three_cold() { three; cold; }
hashed() { as_built hashed; }

to_disk() { rm -f "$work/copy"; }
dd_to_disk() { dd if="$image" of="$work/copy" bs=1M conv=fsync status=none; }
dd_to_socket() { dd if="$image" bs=1M status=none >"/dev/tcp/127.0.0.1/$port"; }
client() { # clouds.yaml
	OS_CLIENT_CONFIG_FILE=$1 "$NPCTL_OPENSTACK" --os-cloud emulator image create --disk-format raw --container-format bare --file "$image" big
}

place one "$work/sink.yaml" a:raw
place three "$work/sink.yaml" a:raw b:qcow2 c:raw
place hashed "$work/emulator.yaml" a:raw
three_bytes=$((2 * $(stat -c %s "$work"/three/images/*.raw) + $(stat -c %s "$work"/three/images/*.qcow2)))

echo "$mib MiB of image, $(nproc) cores, $(uptime | sed 's/.*\(load\)/\1/'), fastest of $repeat"
echo
printf '| %-70s | %6s | %6s | %5s | %5s | %5s |\n' what s MB/s reads disk 'cpu s'
echo '| --- | --- | --- | --- | --- | --- |'
row 'dd to a file, fsync' "$bytes" to_disk dd_to_disk
rm -f "$work/copy"
row 'dd to a socket' "$bytes" nothing dd_to_socket
row 'openstack image create, sink' "$bytes" nothing client "$work/sink.yaml"
row 'npctl apply, sink: one provider' "$bytes" one in_place one apply -auto-approve
row 'npctl apply, sink: three providers, two formats' "$three_bytes" three in_place three apply -auto-approve
row 'openstack image create, emulator' "$bytes" nothing client "$work/emulator.yaml"
row 'npctl apply, emulator: one provider' "$bytes" hashed in_place hashed apply -auto-approve
row 'dd to a socket, file not in memory' "$bytes" cold dd_to_socket
row 'npctl apply, sink: one provider, file not in memory' "$bytes" one_cold in_place one apply -auto-approve
row 'npctl apply, sink: three providers, two formats, files not in memory' "$three_bytes" three_cold in_place three apply -auto-approve
row 'md5sum and sha256sum (what diskimage-builder --checksum does)' "$bytes" nothing sh -c "md5sum '$image'; sha256sum '$image'"
echo
echo 'npctl computes the checksums once, after the build:'
go test -run '^$' -bench 'HashFile' -benchtime 3x ./internal/imagefile | grep ^Benchmark
