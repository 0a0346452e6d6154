//go:build !linux

package timer

import "errors"

func kernelAlarm() (alarm, error) { return alarm{}, errors.ErrUnsupported }
