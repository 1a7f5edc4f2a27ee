# Plays the tool behind a builder. The first argument says how; the rest are what the builder gives its tool.
set -u
mode=$1
shift
# PARSE

# note remembers a process that must not outlive the build.
note() { echo "$1" >> "$output.pids"; }

# start tells the test that everything it waits for is in place.
start() { echo "tool: started"; }

# image leaves a file for each format, its content telling whose it is.
image() {
	for format in $formats; do
		case $format in
		qcow2) printf 'QFI\373\0\0\0\3 %s' "$output" > "$output.$format" ;;
		*) printf 'image %s' "$output" > "$output.$format" ;;
		esac
	done
}

echo "tool: $mode makes $formats"
case $mode in
succeed)
	echo "npctl-progress: 1/2 half of it"
	echo "2026-01-02 03:04:05.678 | dib-run-parts Running /tmp/in_target.d/install.d/01-package-installs"
	image
	echo "tool: that went well"
	;;
slow)
	start
	image
	# Ends when the test says so.
	while ! test -e "$output.go"; do sleep 0.02; done
	;;
fail)
	echo "tool: line before the last"
	echo "tool: the frobnicator is missing, password $TOOL_SECRET" >&2
	exit 3
	;;
nofile) ;;
link)
	for format in $formats; do ln -s /etc/passwd "$output.$format"; done
	;;
wrong)
	for format in $formats; do printf 'KDMV or so' > "$output.$format"; done
	;;
secret)
	echo "plain: $TOOL_SECRET"
	echo "error: $TOOL_SECRET" >&2
	half=${TOOL_SECRET#?????}
	printf 'in parts: %s' "${TOOL_SECRET%"$half"}"
	sleep 0.05
	printf '%s\n' "$half"
	(set -x; : "$TOOL_SECRET") 2>&1
	printf 'base64: '
	printf %s "$TOOL_SECRET" | base64
	mkdir -p "$output.d"
	image
	;;
hang)
	note $$
	sleep 1000 &
	note $!
	start
	wait
	;;
ignore)
	trap '' TERM INT HUP
	note $$
	sleep 1000 &
	note $!
	setsid sleep 1001 > /dev/null 2>&1 &
	note $!
	start
	while :; do sleep 0.1; done
	;;
cleanup)
	trap 'echo cleaned >> "$output.cleaned"; kill -9 $child; echo "tool: cleaned up"; exit 1' TERM
	# The signal is for the leader alone, whose trap may need its children.
	sh -c 'trap "echo signalled >> $1.signalled" TERM; while :; do sleep 0.05; done' child "$output" &
	child=$!
	note $child
	note $$
	start
	wait
	;;
linger)
	sleep 1000 &
	note $!
	setsid sleep 1001 &
	note $!
	image
	;;
verbose)
	yes "tool: a line that is printed over and over again" | head -c 2000000
	echo
	echo "tool: the very last line"
	image
	;;
mount)
	note $$
	# A plain directory plays the host's /dev: whoever deletes through the mount deletes what is precious. Never bind the
	# real one here: a builder that is wrong would delete it.
	mkdir -p "$TMPDIR/a" "$output.host"
	echo precious > "$output.host/precious"
	mount -t tmpfs none "$TMPDIR/a"
	mkdir "$TMPDIR/a/dev" "$TMPDIR/c"
	mount --bind "$output.host" "$TMPDIR/a/dev"
	mount --bind "$output.host" "$TMPDIR/c"
	truncate -s 1M "$TMPDIR/disk"
	losetup -f "$TMPDIR/disk"
	(cd "$TMPDIR/a" && exec sleep 1000) &
	note $!
	trap '' TERM
	start
	while :; do sleep 0.1; done
	;;
fill | limited)
	if test "$mode" = limited; then ulimit -f 100; fi
	head -c 64000000 /dev/zero > "$output.big" || { echo "tool: no space"; exit 1; }
	image
	;;
*)
	echo "tool: unknown mode $mode"
	exit 99
	;;
esac
