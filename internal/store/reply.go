package store

import "strconv"

// Text returns a value of an answer, "" if it is no text.
func Text(v any) string {
	s, _ := v.(string)
	return s
}

// Integer returns a value of an answer, 0 if it is no integer.
func Integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

// Values returns a value of an answer, nil if it is no list.
func Values(v any) []any {
	list, _ := v.([]any)
	return list
}

// Ints converts a list of numbers.
func Ints(reply []any) []int64 {
	list := make([]int64, len(reply))
	for i, v := range reply {
		list[i] = Integer(v)
	}
	return list
}

// Anys returns texts as arguments of a script.
func Anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	return list
}

// Number reads an integer that a script returned as text, 0 if it is none.
func Number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
