package queue

import (
	"strconv"
	"time"
)

// text, integer and values return a value of an answer, or the zero value if it is of another type.
func text(v any) string {
	s, _ := v.(string)
	return s
}

func integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

func values(v any) []any {
	list, _ := v.([]any)
	return list
}

func millis(v any) time.Time { return time.UnixMilli(integer(v)).UTC() }

func micros(v any) time.Time { return time.UnixMicro(integer(v)).UTC() }

// ints converts a list of numbers.
func ints(reply []any) []int64 {
	list := make([]int64, len(reply))
	for i, v := range reply {
		list[i] = integer(v)
	}
	return list
}

func anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	return list
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
