package zookeeper

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

const lockMark = "__lock__"

// splitContender parses a name as kazoo does: the ten digits at the end order the contenders, whatever the prefix is.
func splitContender(name string) (prefix string, number int64, ok bool) {
	i := strings.LastIndex(name, lockMark)
	if i < 0 {
		return "", 0, false
	}
	digits := name[i+len(lockMark):]
	if len(strings.TrimPrefix(digits, "-")) != sequenceLength || digits[0] == '+' {
		return "", 0, false
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	return name[:i], number, err == nil
}

func isContender(name string) bool {
	_, _, ok := splitContender(name)
	return ok
}

// prefixOf returns the prefix that a contender chose for its name, or "" if name is not that of a contender.
func prefixOf(name string) string {
	prefix, _, ok := splitContender(name)
	if !ok {
		return ""
	}
	return prefix
}

// queue lists the contenders of a lock directory, the holder first.
func (c *cache) queue(dir string) []string {
	return slices.SortedFunc(maps.Keys(c.queues[dir]), compareContenders)
}

func compareContenders(a, b string) int {
	if n, m := contenderNumber(a), contenderNumber(b); n != m {
		return int(max(-1, min(1, n-m)))
	}
	return strings.Compare(a, b)
}

func contenderNumber(name string) int64 {
	_, number, _ := splitContender(name)
	return number
}
