# Prints the output of failed tests only, from the output of `go test -v`: the first and last lines of each.
BEGIN { most = 40 }
/^=== (RUN|CONT|NAME|PAUSE) / { now = $3; next }
/^ *--- (PASS|FAIL|SKIP): / { if ($2 == "FAIL:") failed[++n] = $3; next }
/^(FAIL|panic:|fatal error:)/ { other = other substr($0, 1, 400) "\n" }
{ lines[now] = lines[now] "\n" substr($0, 1, 400) }
END {
  for (i = 1; i <= n; i++) {
    print "--- FAIL: " failed[i]
    m = split(lines[failed[i]], all, "\n")
    for (j = 2; j <= m; j++) {
      if (j == most + 2 && m > 2 * most) { print "    ..."; j = m - most }
      print all[j]
    }
  }
  printf "%s", other
}
