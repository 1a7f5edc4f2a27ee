# Functions to run integration tests from a script. Source it with the root of the repository as working directory.

# go_test runs go test with the tags of integration tests and lists every test by name, including skipped tests. It also
# appends the output to $NPCTL_TEST_LOG, if set. Packages run one after the other, because they share services.
go_test() { # arguments of go test
  go test -count=1 -p 1 -timeout 40m -tags "${GO_TEST_TAGS:-integration}" -v "$@" 2>&1 | tee -a "${NPCTL_TEST_LOG:-/dev/null}"
}

# as_root_or_die fails unless the script can install packages and mount file systems.
as_root_or_die() {
  [ "$(id -u)" = 0 ] || { echo "${0##*/}: run this as root, on Debian 12" >&2; exit 1; }
}
