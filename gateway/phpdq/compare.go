package phpdq

import (
	"cmp"
	"reflect"
	"regexp"
	"strconv"
)

// comparisons are PHP's operators. Values are nil, bool, float64, string, []any and map[string]any.
var comparisons = map[string]func(a, b any) bool{
	"==": equal, "!=": unequal, "<>": unequal,
	"===": reflect.DeepEqual, "!==": func(a, b any) bool { return !reflect.DeepEqual(a, b) },
	"<":  func(a, b any) bool { return order(a, b) == -1 },
	"<=": func(a, b any) bool { o := order(a, b); return o == -1 || o == 0 },
	">":  func(a, b any) bool { return order(a, b) == 1 },
	">=": func(a, b any) bool { o := order(a, b); return o == 1 || o == 0 },
}

func equal(a, b any) bool   { return order(a, b) == 0 }
func unequal(a, b any) bool { return !equal(a, b) }

// unordered is the result of order for arrays with different keys.
const unordered = 2

// truth converts a value to bool as PHP does.
func truth(v any) bool {
	switch x := v.(type) {
	case bool:
		return x
	case float64:
		return x != 0
	case string:
		return x != "" && x != "0"
	case []any:
		return len(x) > 0
	case map[string]any:
		return len(x) > 0
	}
	return false
}

// order compares loosely, as PHP 7 does, and returns -1, 0, 1 or unordered. php-delayqueue does not run on later
// versions.
func order(a, b any) int {
	textA, isTextA := a.(string)
	textB, isTextB := b.(string)
	_, isBoolA := a.(bool)
	_, isBoolB := b.(bool)
	switch {
	case a == nil && isTextB:
		return cmp.Compare("", textB)
	case b == nil && isTextA:
		return cmp.Compare(textA, "")
	case a == nil || b == nil || isBoolA || isBoolB:
		return cmp.Compare(asInt(truth(a)), asInt(truth(b)))
	case isArray(a) || isArray(b):
		return orderArrays(a, b)
	}
	numberA, wholeA := asNumber(a)
	numberB, wholeB := asNumber(b)
	if isTextA && isTextB && !(wholeA && wholeB) {
		return cmp.Compare(textA, textB)
	}
	return cmp.Compare(numberA, numberB)
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

var number = regexp.MustCompile(`^[ \t\n\r\v\f]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)`)

// asNumber returns the number at the beginning of a value, and whether that is the whole value.
func asNumber(v any) (f float64, whole bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	s, _ := v.(string)
	found := number.FindStringSubmatch(s)
	if found == nil {
		return 0, false
	}
	f, _ = strconv.ParseFloat(found[1], 64) // numbers that are too large become infinite
	return f, found[0] == s
}

func isArray(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return true
	}
	return false
}

// orderArrays sorts an array after any other value, and after an array with fewer members.
func orderArrays(a, b any) int {
	if !isArray(a) {
		return -1
	}
	if !isArray(b) {
		return 1
	}
	membersA, membersB := members(a), members(b)
	if o := cmp.Compare(len(membersA), len(membersB)); o != 0 {
		return o
	}
	for name, x := range membersA {
		y, ok := membersB[name]
		if !ok {
			return unordered
		}
		if o := order(x, y); o != 0 {
			return o
		}
	}
	return 0
}

func members(v any) map[string]any {
	if m, ok := v.(map[string]any); ok {
		return m
	}
	m := map[string]any{}
	for i, x := range v.([]any) {
		m[strconv.Itoa(i)] = x
	}
	return m
}
