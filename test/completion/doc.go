// Package completion holds the tests that press TAB in real shells. They are behind the build tag integration; run.sh
// installs the shells and runs them.
package completion
