//go:build race

// Package race says whether tests run with the race detector.
package race

// Enabled says so.
const Enabled = true
