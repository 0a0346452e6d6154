package server

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/store"
)

// integer also accepts 3.0 and 3e2, since JSON has only one kind of number.
type integer int64

func (i *integer) UnmarshalJSON(v []byte) error {
	if kind := jsontext.Value(v).Kind(); kind != jsontext.KindNumber {
		return badValue("must be an integer, got %s", kindName(kind))
	}
	n, err := parseInteger(string(v))
	*i = integer(n)
	return err
}

func parseInteger(number string) (int64, error) {
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	switch {
	case math.IsInf(f, 0) || math.Abs(f) >= math.MaxInt64:
		return 0, rangeError("%s is out of range", clip(number))
	case err != nil || f != math.Trunc(f):
		return 0, badValue("must be an integer, got %q", clip(number))
	}
	return int64(f), nil
}

// between checks the value of a field.
func (i integer) between(field string, low, high int) (int, error) {
	if i < integer(low) || i > integer(high) {
		return 0, outOfRange(field, "must be between %d and %d, got %d", low, high, i)
	}
	return int(i), nil
}

// limitOf reads the query parameter limit.
func (c *call) limitOf(standard, most int) (int, error) {
	if !c.query.Has("limit") {
		return standard, nil
	}
	n, err := parseInteger(c.query.Get("limit"))
	if err != nil {
		return 0, problemOf(err).in("limit")
	}
	return integer(n).between("limit", 1, most)
}

// Fields with one of several values.
type (
	priority    store.Priority
	onDuplicate store.OnDuplicate
	order       store.Order
)

var (
	priorities   = map[string]store.Priority{"high": store.High, "normal": store.Normal, "low": store.Low}
	onDuplicates = map[string]store.OnDuplicate{"keep": store.Keep, "replace": store.Replace, "error": store.Refuse}
	orders       = map[string]store.Order{"fair": store.Fair, "listed": store.Listed}
)

func (p *priority) UnmarshalText(text []byte) error {
	return oneOf(text, priorities, (*store.Priority)(p))
}

func (o *onDuplicate) UnmarshalText(text []byte) error {
	return oneOf(text, onDuplicates, (*store.OnDuplicate)(o))
}

func (o *order) UnmarshalText(text []byte) error { return oneOf(text, orders, (*store.Order)(o)) }

func oneOf[T any](text []byte, words map[string]T, value *T) error {
	v, known := words[string(text)]
	if !known {
		known := strings.Join(slices.Sorted(maps.Keys(words)), ", ")
		return badValue("must be one of %s, got %q", known, clip(string(text)))
	}
	*value = v
	return nil
}

// list is a field of a request that is an array with a limited number of items, so that a long array of empty items
// cannot exhaust memory.
type list[T any] struct {
	items []T
	most  int
	given bool
}

// UnmarshalJSONFrom reads the items one by one.
func (l *list[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if l.given {
		return errDuplicateField()
	}
	l.given = true
	if kind := d.PeekKind(); kind != jsontext.KindBeginArray {
		if err := d.SkipValue(); err != nil {
			return err
		}
		return wrongType(reflect.TypeFor[[]T](), kind)
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != jsontext.KindEndArray {
		if len(l.items) == l.most {
			return rangeError("the limit is %d entries; use several requests", l.most)
		}
		var item T
		if err := json.UnmarshalDecode(d, &item); err != nil {
			return err
		}
		l.items = append(l.items, item)
	}
	_, err := d.ReadToken()
	return err
}
