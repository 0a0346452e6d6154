package admin

import (
	"errors"

	"github.com/wakecall/wakecall/admin/account"
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

// formErrors is fieldErrors for what the registry refuses; refusals that name no field stand at the field named first.
func formErrors(err error, first string) (fields map[string]string, rest error) {
	fields, rest = fieldErrors(err)
	if rest != nil && isRefusal(rest) {
		fields[first] = rest.Error()
		rest = nil
	}
	return fields, rest
}

// isRefusal says whether the registry answered that it cannot be done, rather than failed.
func isRefusal(err error) bool {
	return errors.Is(err, account.ErrExists) || errors.Is(err, account.ErrLastAdmin)
}
