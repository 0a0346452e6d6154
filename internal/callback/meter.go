package callback

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/expr-lang/expr/vm/runtime"

	"github.com/wakecall/wakecall/internal/message"
)

// The virtual machine of retry_if expressions has neither a deadline nor a memory limit, and its input comes from
// endpoints. So every operation whose cost grows with the length of a text or list is compiled to a call of do, which
// first takes the cost from a budget. A unit is about 20 ns or 8 bytes.
const (
	budget       = 1 << 19
	perCall      = 8
	perNode      = 3
	perElement   = 16   // for each element of a new list
	perRead      = 8    // bytes compared or searched for one unit
	maxPattern   = 256  // bytes of a pattern
	maxSteps     = 1000 // instructions of a compiled pattern
	maxRangeSize = 10_000
)

var errBudget = errors.New("too expensive for this response")

// meter holds the remaining budget of an evaluation.
type meter struct{ left int }

func (m *meter) take(units int) error {
	if units > m.left {
		m.left = 0
		return errBudget
	}
	m.left -= units
	return nil
}

// read takes the cost of comparing a value.
func (m *meter) read(v any) error {
	switch x := v.(type) {
	case string:
		return m.take(len(x)/perRead + 1)
	case []any:
		for i := range x {
			if err := m.read(x[i]); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, e := range x {
			if err := errors.Join(m.take(len(k)/perRead+1), m.read(e)); err != nil {
				return err
			}
		}
	case []string:
		for i := range x {
			if err := m.take(len(x[i])/perRead + 1); err != nil {
				return err
			}
		}
	case []int:
		return m.take(len(x))
	}
	return m.take(1)
}

// operation is a metered operator or function.
type operation func(m *meter, args []any) (any, error)

// operators are those whose cost depends on their operands. "." is a step of a path, and "round" an iteration of a
// loop.
var operators = map[string]operation{
	"==":         comparing(func(a, b any) any { return runtime.Equal(a, b) }),
	"!=":         comparing(func(a, b any) any { return !runtime.Equal(a, b) }),
	"<":          comparing(func(a, b any) any { return runtime.Less(a, b) }),
	">":          comparing(func(a, b any) any { return runtime.More(a, b) }),
	"<=":         comparing(func(a, b any) any { return runtime.LessOrEqual(a, b) }),
	">=":         comparing(func(a, b any) any { return runtime.MoreOrEqual(a, b) }),
	"in":         comparing(func(a, b any) any { return runtime.In(a, b) }),
	"contains":   searching(strings.Contains),
	"startsWith": searching(strings.HasPrefix),
	"endsWith":   searching(strings.HasSuffix),
	"matches":    match,
	"+":          add,
	"..":         interval,
	".":          step,
	"round":      func(m *meter, args []any) (any, error) { return args[1], m.take(perNode * args[0].(int)) },
}

// function is a metered function; typ is its type in expressions.
type function struct {
	typ any
	operation
}

var functions = map[string]function{
	"len":    {new(func(any) int), func(_ *meter, args []any) (any, error) { return runtime.Len(args[0]), nil }},
	"lower":  {new(func(string) string), making(strings.ToLower)},
	"upper":  {new(func(string) string), making(strings.ToUpper)},
	"trim":   {new(func(string) string), making(strings.TrimSpace)},
	"split":  {new(func(string, string) []string), split},
	"int":    {new(func(any) int), number(func(v any) any { return runtime.ToInt(v) })},
	"float":  {new(func(any) float64), number(func(v any) any { return runtime.ToFloat64(v) })},
	"string": {new(func(any) string), scalar},
}

// loops are the built-in functions that take a predicate.
var loops = map[string]bool{
	"all": true, "any": true, "none": true, "one": true, "count": true, "find": true, "filter": true, "map": true,
}

// The cost of unmetered operators does not depend on their operands.
var unmetered = []string{"and", "&&", "or", "||", "??", "-", "*", "/", "%", "**", "^"}

// do executes all metered operators and functions, which are compiled to calls of it.
func do(params ...any) (any, error) {
	m, _ := params[0].(*meter)
	name, _ := params[1].(string)
	if err := m.take(perCall); err != nil {
		return nil, err
	}
	if op, ok := operators[name]; ok {
		return op(m, params[2:])
	}
	return functions[name].operation(m, params[2:])
}

func comparing(op func(a, b any) any) operation {
	return func(m *meter, args []any) (any, error) {
		for _, a := range args {
			if err := m.read(a); err != nil {
				return nil, err
			}
		}
		return op(args[0], args[1]), nil
	}
}

func searching(op func(s, part string) bool) operation {
	return func(m *meter, args []any) (any, error) {
		if args[0] == nil || args[1] == nil {
			return false, nil
		}
		a, aok := args[0].(string)
		b, bok := args[1].(string)
		if !aok || !bok {
			return nil, fmt.Errorf("search %T for %T: both must be text", args[0], args[1])
		}
		return op(a, b), m.take((len(a)+len(b))/perRead + 1)
	}
}

// pattern is the right operand of matches. steps is the cost of matching one byte.
type pattern struct {
	*regexp.Regexp
	steps int
}

func match(m *meter, args []any) (any, error) {
	p, _ := args[1].(*pattern)
	s, ok := args[0].(string)
	if args[0] == nil {
		return false, nil
	}
	if !ok {
		return nil, fmt.Errorf("match %T: must be text", args[0])
	}
	if err := m.take(len(s) * p.steps); err != nil {
		return nil, err
	}
	return p.MatchString(s), nil
}

func compilePattern(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, message.New("expression.pattern_bytes", len(text), maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxSteps {
		return nil, message.New("expression.pattern_complex")
	}
	re, err := regexp.Compile(text)
	return &pattern{re, len(program.Inst)/4 + 1}, err
}

func add(m *meter, args []any) (any, error) {
	a, aok := args[0].(string)
	b, bok := args[1].(string)
	if aok && bok {
		if err := m.take(len(a) + len(b)); err != nil {
			return nil, err
		}
	}
	return runtime.Add(args[0], args[1]), nil
}

func making(op func(string) string) operation {
	return func(m *meter, args []any) (any, error) {
		s, ok := args[0].(string)
		if !ok {
			return nil, fmt.Errorf("%T is not text", args[0])
		}
		if err := m.take(2 * len(s)); err != nil {
			return nil, err
		}
		return op(s), nil
	}
}

func split(m *meter, args []any) (any, error) {
	s, sok := args[0].(string)
	by, bok := args[1].(string)
	if !sok || !bok {
		return nil, fmt.Errorf("split %T by %T: both must be text", args[0], args[1])
	}
	if err := m.read(s); err != nil {
		return nil, err
	}
	if err := m.take(perElement * (strings.Count(s, by) + 1)); err != nil {
		return nil, err
	}
	return strings.Split(s, by), nil
}

func interval(m *meter, args []any) (any, error) {
	from, to := runtime.ToInt(args[0]), runtime.ToInt(args[1])
	if to-from >= maxRangeSize || to-from < 0 && to > from {
		return nil, fmt.Errorf("a range has more than %d numbers", maxRangeSize)
	}
	if err := m.take(perElement * max(0, to-from+1)); err != nil {
		return nil, err
	}
	return runtime.MakeRange(from, to), nil
}

func number(op func(any) any) operation {
	return func(_ *meter, args []any) (any, error) {
		if s, ok := args[0].(string); ok {
			f := parse([]byte(s[:min(len(s), 64)]))
			if f == nil {
				return nil, fmt.Errorf("%.20q is not a number", s)
			}
			return op(f), nil
		}
		return op(args[0]), nil
	}
}

func scalar(_ *meter, args []any) (any, error) {
	switch v := args[0].(type) {
	case string:
		return v, nil
	case nil, bool, int, float64:
		return fmt.Sprint(v), nil
	}
	return nil, fmt.Errorf("%T is not text", args[0])
}

// step returns base[key], or nil.
func step(_ *meter, args []any) (any, error) {
	switch base := args[0].(type) {
	case map[string]any:
		key, _ := args[1].(string)
		return base[key], nil
	case map[string]string:
		key, _ := args[1].(string)
		return base[strings.ToLower(key)], nil
	case []any, []string, []int:
		v := reflect.ValueOf(base)
		i, ok := args[1].(int)
		if i < 0 {
			i += v.Len()
		}
		if ok && i >= 0 && i < v.Len() {
			return v.Index(i).Interface(), nil
		}
	}
	return nil, nil
}
