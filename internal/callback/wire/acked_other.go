//go:build !linux

package wire

import "errors"

// acked is only known on Linux. Without it, a request whose connection was closed may have been received.
func acked(int) (int64, error) { return 0, errors.ErrUnsupported }
