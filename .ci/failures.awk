# Prints the failed tests of a part from the output of go test, with or without -v: of each the lines that it has logged itself and
# the last ones of others, such as logs of programs, and the command that repeats them alone. -v part is the target, such as race, or
# words. It also writes the first and the last message of each failed test to the file -v brief, if that is given.
BEGIN { most = 60 }

# report prints the lines of a test. Those with a place begin a message, which goes on until a line with less indentation.
function report(name, text,   all, m, i, own, logged, indent, where, first, final) {
  m = split(text, all, "\n")
  for (i = 2; i <= m; i++) {
    match(all[i], /^ */)
    if (all[i] ~ /^ +[a-z0-9_]+\.go:[0-9]+: /) { own[i] = 1; where = final = i; indent = RLENGTH; if (!first) first = i }
    else if (where && i - where < 12 && RLENGTH > indent && all[i] !~ /(time=|level=)/) own[i] = 1
    else where = 0
    logged += own[i]
  }
  if (brief && first) print name "\n" substr(all[first], 1, 300) (final > first ? "\n" substr(all[final], 1, 300) : "") >brief
  for (i = 2; i <= m; i++) {
    if (own[i] && logged-- > most) continue
    if (own[i] || i > m - 20) print all[i]
  }
}
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
    report(failed[i], lines[failed[i]])
  }
  printf "%s", other
  if (brief && other) printf "%s", other >brief
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
