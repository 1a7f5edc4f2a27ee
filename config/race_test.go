//go:build race

package config

// raceDetector reduces the number of blocks in tests that count them.
const raceDetector = true
