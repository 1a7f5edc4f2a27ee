# Prints the failed tests of a part from the output of go test, with or without -v: the first and last lines of each, and the
# command that repeats them alone. -v part is the target, such as race, or words.
BEGIN { most = 40 }
/^=== (RUN|CONT|NAME|PAUSE) / { now = $3; next }
/^ *--- (PASS|FAIL|SKIP): / {
  if ($2 == "FAIL:") {
    failed[++n] = $3
    if ($0 ~ /^-/) tests = tests (tests ? "|" : "") $3
  }
  now = $3
  next
}
/^FAIL$/ { next }
/^FAIL\t/ {
  if (tests) again[++commands] = $2 " " tests
  else other = other $0 "\n"
  tests = ""
  next
}
/^(panic:|fatal error:)/ { other = other substr($0, 1, 400) "\n" }
{ lines[now] = lines[now] "\n" substr($0, 1, 400); last[NR % 20] = substr($0, 1, 400) }
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
  if (!n) for (i = NR - 19; i <= NR; i++) if (i > 0) print last[i % 20]
  print part " failed" (part ~ / / ? "" : "; to repeat:")
  for (i = 1; i <= commands; i++) {
    split(again[i], word, " ")
    sub("github.com/npctl/npctl", ".", word[1])
    if (part ~ /integration/ && part !~ /newcomer/) print "  RUN='^(" word[2] ")$' make " part
    else print "  RUN='^(" word[2] ")$' PKG=" word[1] " make " (part ~ /race/ ? "race" : "test")
  }
  if (!commands && part !~ / /) print "  make " part
}
