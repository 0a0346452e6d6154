package list

import (
	"fmt"
	"net/url"
)

// With returns a query with other values of parameters, given as pairs; an empty value removes one. It leaves out the
// page number, which a changed list does not keep.
func With(query url.Values, pairs ...any) url.Values {
	changed := url.Values{}
	for name, values := range query {
		if name != "page" && len(values) > 0 {
			changed[name] = values
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if name, value := fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1]); value == "" {
			changed.Del(name)
		} else {
			changed.Set(name, value)
		}
	}
	return changed
}
