#!/bin/bash
# Counts the lines of Go in npctl by directory: the files of this module that go into the binary on this system. Their history is in
# docs/decisions/0045-the-size-of-the-binary.md.
set -euo pipefail
cd "$(dirname "$0")/.."

go list -deps -f '{{with .Module}}{{if .Main}}{{range $.GoFiles}}{{$.Dir}}/{{.}}
{{end}}{{end}}{{end}}' ./cmd/npctl | while read -r file; do
	[ -z "$file" ] || echo "$(wc -l <"$file") ${file#"$PWD/"}"
done | awk '
	{ split($2, part, "/"); lines[part[1]] += $1; total += $1 }
	END {
		for (dir in lines) printf "%s %d, ", dir, lines[dir] | "sort | tr -d \"\\n\""
		close("sort | tr -d \"\\n\"")
		printf "together %d lines in the binary\n", total
	}'
