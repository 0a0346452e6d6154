package store

import (
	"errors"
)

func UnavailableOnly(err error) error {
	if _, ok := errors.AsType[*UnavailableError](err); ok {
		return err
	}
	return nil
}
