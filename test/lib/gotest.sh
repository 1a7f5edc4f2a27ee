# Functions to run integration tests from a script. Source it with the root of the repository as working directory.

# go_test runs integration tests with go test: of each package the tests in files that have a build tag of $GO_TEST_TAGS
# (integration by default), because make test runs the others. An explicit -run selects tests of all packages by name.
# It lists every test by name and appends the output to $NPCTL_TEST_LOG, if set. Packages run one after the other, because
# they share services. The tests run bin/npctl, which it builds first.
go_test() { # arguments of go test: flags, with their values after =, and packages
  local tags=${GO_TEST_TAGS:-integration} flags=() patterns=() packages package names tests=0 failed=0
  while [ $# != 0 ]; do
    case $1 in
      -run | -bench | -benchtime | -parallel | -timeout) flags+=("$1=$2") && shift ;;
      -*) flags+=("$1") ;;
      *) patterns+=("$1") ;;
    esac
    shift
  done
  build_npctl || return
  [ -z "${RUN:-}" ] || flags+=("-run=$RUN") # the last -run counts
  if [[ " ${flags[*]}" = *' -run='* ]]; then
    run_tests "${flags[@]}" "${patterns[@]}"
    return
  fi
  mapfile -t packages < <(go list -tags "$tags" "${patterns[@]}")
  for package in "${packages[@]}"; do
    names=$(tagged_tests "$package") || return
    [ -n "$names" ] || continue
    tests=1
    run_tests "${flags[@]}" -run="^($names)\$" "$package" || failed=1 # the other packages show more
  done
  [ $tests = 1 ] || { echo "no test in ${patterns[*]} has a build tag of: $tags" >&2; return 1; }
  return $failed
}

run_tests() { # arguments of go test
  go test -count=1 -p 1 -vet=off -timeout 40m -tags "$tags" -v "$@" 2>&1 | tee -a "${NPCTL_TEST_LOG:-/dev/null}"
}

# build_npctl builds bin/npctl and exports its path as $NPCTL, unless that names another program, or $NPCTL_RACE lets each
# package build its own. Several scripts may build at the same time.
build_npctl() {
  [ -z "${NPCTL:-}${NPCTL_RACE:-}" ] || return 0
  mkdir -p bin
  (flock 7 && make --no-print-directory build >/dev/null) 7>bin/.lock || return
  export NPCTL=$PWD/bin/npctl
}

# tagged_tests prints the names of a package's tests that need $tags, with | between them.
tagged_tests() { # package
  local format='{{$d := .Dir}}{{range .TestGoFiles}}{{$d}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$d}}/{{.}}
{{end}}' files
  mapfile -t files < <(comm -13 <(go list -e -f "$format" "$1" | sort -u) <(go list -tags "$tags" -f "$format" "$1" | sort -u))
  [ ${#files[@]} != 0 ] || return 0
  { grep -hoE '^func Test[A-Za-z0-9_]+\(t ' "${files[@]}" || [ $? = 1 ]; } | sed 's/^func //; s/(t $//' | paste -sd'|'
}

# as_root_or_die fails unless the script can install packages and mount file systems.
as_root_or_die() {
  [ "$(id -u)" = 0 ] || { echo "${0##*/}: run this as root, on Debian 12" >&2; exit 1; }
}
