# Running integration tests from a script. Sourced, with the repository's root as the working directory.

# go_test runs go test with the tags of integration tests and shows every test by name, so that one that was skipped is
# seen. $NPCTL_TEST_LOG, when set, gets the output too. Packages run one after the other: they share what they test on.
go_test() { # arguments of go test
  go test -count=1 -p 1 -timeout 40m -tags "${GO_TEST_TAGS:-integration}" -v "$@" 2>&1 | tee -a "${NPCTL_TEST_LOG:-/dev/null}"
}

# as_root_or_die is for what has to install packages and mount things.
as_root_or_die() {
  [ "$(id -u)" = 0 ] || { echo "${0##*/}: run this as root, on Debian 12" >&2; exit 1; }
}
