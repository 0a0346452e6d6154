//go:build !race

package race

// Enabled reports whether tests run with the race detector.
const Enabled = false
