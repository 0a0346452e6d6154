package store

import (
	"strconv"
	"time"
)

// Text returns a value of an answer, as Integer and Values do, or the zero value if it is of another type.
func Text(v any) string {
	s, _ := v.(string)
	return s
}

func Integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

func Values(v any) []any {
	list, _ := v.([]any)
	return list
}

func Millis(v any) time.Time { return time.UnixMilli(Integer(v)).UTC() }

func micros(v any) time.Time { return time.UnixMicro(Integer(v)).UTC() }

// Ints converts a list of numbers.
func Ints(reply []any) []int64 {
	list := make([]int64, len(reply))
	for i, v := range reply {
		list[i] = Integer(v)
	}
	return list
}

func Anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	return list
}

func Number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
