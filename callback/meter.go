package callback

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm/runtime"
)

// A retry_if expression runs where callbacks are made, on an answer that a stranger wrote, and the machine that runs it has
// neither a deadline nor a limit in bytes. So whatever takes longer for a longer text or list is a call of do, which first
// takes its cost from a budget: a unit is some 20 ns of work and 8 bytes of memory.
const (
	budget       = 1 << 19
	perCall      = 8
	perNode      = 3
	perElement   = 16   // of a list that is made
	perRead      = 8    // bytes compared or searched for one unit
	maxPattern   = 256  // bytes of a pattern of matches
	maxSteps     = 1000 // instructions of a compiled pattern
	maxRangeSize = 10_000
)

var errBudget = errors.New("it takes too long on this answer")

// meter is what is left of an evaluation's budget.
type meter struct{ left int }

func (m *meter) take(units int) error {
	if units > m.left {
		m.left = 0
		return errBudget
	}
	m.left -= units
	return nil
}

// read takes the cost of comparing or searching a value.
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

// operators are those whose cost depends on their operands. "." is a step of a path, "round" one of a loop.
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

// function is a metered function; typ is how an expression may call it.
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

// loops are the functions of the language that take a predicate.
var loops = map[string]bool{
	"all": true, "any": true, "none": true, "one": true, "count": true, "find": true, "filter": true, "map": true,
}

// unmetered operators cost the same whatever their operands are.
var unmetered = []string{"and", "&&", "or", "||", "??", "-", "*", "/", "%", "**", "^"}

// do is the function that all metered operators and functions are compiled to.
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
			return nil, fmt.Errorf("it searches %T for %T", args[0], args[1])
		}
		return op(a, b), m.take((len(a)+len(b))/perRead + 1)
	}
}

// pattern is the right side of matches, and about how many units a byte costs.
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
		return nil, fmt.Errorf("it matches %T", args[0])
	}
	if err := m.take(len(s) * p.steps); err != nil {
		return nil, err
	}
	return p.MatchString(s), nil
}

func compilePattern(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("a pattern has %d bytes; at most %d", len(text), maxPattern)
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
		return nil, errors.New("a pattern is too complex: its repetitions multiply")
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
			return nil, fmt.Errorf("it takes %T for a text", args[0])
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
		return nil, fmt.Errorf("it splits %T by %T", args[0], args[1])
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
				return nil, fmt.Errorf("%.20q is no number", s)
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
	return nil, fmt.Errorf("it takes %T for a text", args[0])
}

// step is base[key], or nil.
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

// allowed finds what an expression must not use, for the types of which it is compiled first.
type allowed struct {
	usesRes bool
	err     *file.Error
}

// Visit implements ast.Visitor.
func (a *allowed) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.ConditionalNode, *ast.ChainNode,
		*ast.SliceNode, *ast.ArrayNode, *ast.PredicateNode, *ast.UnaryNode, *ast.VariableDeclaratorNode:
	case *ast.IdentifierNode:
		a.usesRes = a.usesRes || n.Value == "res"
		a.refuse(node, strings.HasPrefix(n.Value, "_") || strings.HasPrefix(n.Value, "$"), n.Value)
	case *ast.PointerNode:
		a.refuse(node, n.Name != "" && n.Name != "index", "#"+n.Name)
	case *ast.BinaryNode:
		a.binary(node, n)
	case *ast.MemberNode:
		a.refuse(node, n.Method, "a method")
		ast.Patch(node, call(".", n.Node, n.Property)) // what is not there is nil, and nil is not an error
	case *ast.BuiltinNode:
		a.refuse(node, !loops[n.Name], n.Name)
	case *ast.CallNode:
		id, ok := n.Callee.(*ast.IdentifierNode)
		a.refuse(node, !ok || functions[id.Value].operation == nil, "this function")
	default:
		a.refuse(node, true, "this part of the language")
	}
}

func (a *allowed) binary(node *ast.Node, n *ast.BinaryNode) {
	if n.Operator == "matches" {
		s, ok := n.Right.(*ast.StringNode)
		a.refuse(node, !ok, "matches with a pattern that is not a text")
		if !ok {
			return
		}
		if _, err := compilePattern(s.Value); err != nil && a.err == nil {
			a.err = &file.Error{Location: n.Right.Location(), Message: err.Error()}
			s.Value = "" // nobody else compiles it
		}
		return
	}
	a.refuse(node, operators[n.Operator] == nil && !slices.Contains(unmetered, n.Operator), "operator "+n.Operator)
}

func (a *allowed) refuse(node *ast.Node, is bool, what string) {
	if is && a.err == nil {
		a.err = &file.Error{Location: (*node).Location(), Message: what + " is not allowed in retry_if"}
	}
}

// metered replaces what has a cost by calls of do.
type metered struct{ nodes int }

// Visit implements ast.Visitor.
func (v *metered) Visit(node *ast.Node) {
	v.nodes++
	switch n := (*node).(type) {
	case *ast.MemberNode:
		ast.Patch(node, call(".", n.Node, n.Property))
	case *ast.CallNode:
		id, _ := n.Callee.(*ast.IdentifierNode)
		ast.Patch(node, call(id.Value, n.Arguments...))
	case *ast.BinaryNode:
		if operators[n.Operator] == nil {
			return
		}
		right := n.Right
		if s, ok := right.(*ast.StringNode); ok && n.Operator == "matches" {
			p, _ := compilePattern(s.Value)
			right = &ast.ConstantNode{Value: p}
		}
		ast.Patch(node, call(n.Operator, n.Left, right))
	case *ast.PredicateNode: // so far is more than its own nodes, and bounds them
		n.Node = call("round", &ast.IntegerNode{Value: v.nodes}, n.Node)
	}
}

func call(name string, args ...ast.Node) ast.Node {
	first := []ast.Node{&ast.IdentifierNode{Value: "_meter"}, &ast.StringNode{Value: name}}
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: "_do"}, Arguments: append(first, args...)}
}
