//go:build race

package config

// raceDetector makes tests that count blocks count fewer.
const raceDetector = true
