#!/bin/bash
# Runs the tests that a change can break: those of the changed packages and of all packages that depend on them. Then prints
# the integration targets whose tests import a changed package, and those that run npctl as a program, if it changed.
#   BASE   the commit to compare with (default: where the branch left origin/main, else the last commit)
#   RUN    limits the tests, as in make test
# Untracked and uncommitted files count as changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly tags=integration,gearman,zuul,openstackclient module=github.com/npctl/npctl

base=${BASE:-$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)}
mapfile -t files < <({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sort -u)
[ ${#files[@]} != 0 ] || { echo "no file differs from $base; BASE=COMMIT selects another commit"; exit 0; }

# package_of prints the package of a file: that of the closest directory with Go files.
package_of() { # file
  local dir=$1
  while dir=$(dirname "$dir") && [ "$dir" != . ]; do
    if compgen -G "$dir/*.go" >/dev/null; then echo "$module/$dir"; return; fi
  done
}

# dependents prints each package as: its path, what it imports directly or not, | and what its tests import.
dependents() {
  go list -e -tags "$tags" -f '{{.ImportPath}} {{join .Deps " "}} | {{join .TestImports " "}} {{join .XTestImports " "}}' ./...
}

changed=$(for file in "${files[@]}"; do
  case $file in
    go.mod | go.sum) go list ./... ;;
    examples/* | docs/* | *.md) echo "$module/internal/doctest" && echo "$module/cmd/npctl" ;;
    *) package_of "$file" ;;
  esac
done | sort -u)
affected=$(dependents | awk -v changed="$changed" '
  BEGIN { n = split(changed, list, "\n"); for (i = 1; i <= n; i++) hit[list[i]] = 1 }
  { line[NR] = $0; for (i = 1; i <= NF && $i != "|"; i++) if ($i in hit) { built[$1] = 1; break } }
  END {
    for (i = 1; i <= NR; i++) {
      m = split(line[i], word, " ")
      found = word[1] in built
      for (j = m; j > 0 && word[j] != "|" && !found; j--) found = (word[j] in built) || (word[j] in hit)
      if (found) print word[1]
    }
  }' | sort)
[ -n "$affected" ] || { echo "no package depends on: ${files[*]}; make check and the integration target of a changed script can still fail"; exit 0; }

# targets prints the integration targets whose scripts name one of these packages.
targets() { # packages
  local script name package arguments
  for script in test/*/run.sh test/zuul/whole/run.sh; do
    name=$(awk -F: -v script="./$script" '/^[a-z]/ { target = $1 } target ~ /^integration-/ && index($0, "\t" script) { print target; exit }' Makefile)
    arguments=$(grep -E 'go_test|- -run' "$script" | grep -oE '\./[A-Za-z0-9/._-]+')
    for package in $(go list -e -tags "$tags" $arguments 2>/dev/null); do
      if grep -qxF "$package" <<<"$1"; then echo "$name"; break; fi
    done
  done
}

echo "changed: $(sed "s|$module/||" <<<"$changed" | xargs)"
PKG=$(xargs <<<"$affected") make --no-print-directory test
direct=$(targets "$(grep -vxF "$module/cmd/npctl" <<<"$affected")" | sort -u) # the program imports everything
[ -z "$direct" ] || echo "integration targets with tests of these packages, as root: make $(xargs <<<"$direct")"
if grep -qxF "$module/cmd/npctl" <<<"$affected"; then
  all=$(for script in $(grep -lE 'test/program' -r test --include='*_test.go' | xargs -n1 dirname | sort -u); do echo "$module/$script"; done)
  echo "integration targets that run npctl as a program: make $(targets "$all" | sort -u | xargs)"
fi
