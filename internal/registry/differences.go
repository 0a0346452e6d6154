package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// onlyChanged returns the parts of two JSON values that differ, for the audit trail: of objects, the members that
// differ; of lists, the elements that the other one does not have. A setting may hold a list that grows with every
// change, so whole states would take up space by the square of the number of changes.
func onlyChanged(was, is []byte) (before, after []byte, err error) {
	b, errB := decoded(was)
	a, errA := decoded(is)
	if err := errors.Join(errB, errA); err != nil {
		return nil, nil, err
	}
	b, a = parted(b, a)
	if before, err = json.Marshal(b); err == nil {
		after, err = json.Marshal(a)
	}
	return before, after, err
}

// decoded keeps the notation of numbers.
func decoded(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// sameJSON reports whether two JSON texts have the same value. One that is missing has none.
func sameJSON(a, b []byte) bool {
	x, errX := decoded(a)
	y, errY := decoded(b)
	return errX == nil && errY == nil && encoded(x) == encoded(y)
}

func parted(b, a any) (before, after any) {
	switch x := b.(type) {
	case map[string]any:
		if y, ok := a.(map[string]any); ok {
			return partedMembers(x, y)
		}
	case []any:
		if y, ok := a.([]any); ok {
			return partedElements(x, y)
		}
	}
	return b, a
}

func partedMembers(b, a map[string]any) (before, after map[string]any) {
	before, after = map[string]any{}, map[string]any{}
	for name, was := range b {
		is, has := a[name]
		switch {
		case !has:
			before[name] = was
		case encoded(was) != encoded(is):
			before[name], after[name] = parted(was, is)
		}
	}
	for name, is := range a {
		if _, had := b[name]; !had {
			after[name] = is
		}
	}
	return before, after
}

// partedElements returns both lists whole if only the order differs.
func partedElements(b, a []any) (before, after []any) {
	before, after = without(b, a), without(a, b)
	if len(before)+len(after) == 0 {
		return b, a
	}
	return before, after
}

// without returns the elements of list that other does not have, or has less often.
func without(list, other []any) []any {
	count := map[string]int{}
	for _, v := range other {
		count[encoded(v)]++
	}
	return slices.DeleteFunc(slices.Clone(list), func(v any) bool {
		count[encoded(v)]--
		return count[encoded(v)] >= 0
	})
}

func encoded(v any) string {
	b, _ := json.Marshal(v) // was decoded from JSON
	return string(b)
}
