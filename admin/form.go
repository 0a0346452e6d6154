package admin

import (
	"errors"

	"github.com/wakecall/wakecall/registry"
)

// fieldErrors tells the errors of a form by field. rest is what belongs to no field: nil when all do.
func fieldErrors(err error) (fields map[string]string, rest error) {
	fields = map[string]string{}
	var others []error
	for _, one := range flatten(err) {
		var f *registry.FieldError
		if !errors.As(one, &f) {
			others = append(others, one)
			continue
		}
		if fields[f.Field] == "" {
			fields[f.Field] = f.Detail
		}
	}
	return fields, errors.Join(others...)
}

// flatten lists the errors that errors.Join joined.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, flatten(e)...)
	}
	return list
}
