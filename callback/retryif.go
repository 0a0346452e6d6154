package callback

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
	"github.com/expr-lang/expr/vm/runtime"
)

// Program is a compiled retry_if expression. It may be used by many calls at once.
type Program struct {
	program *vm.Program
	usesRes bool
}

// environment is what an expression sees.
type environment struct {
	Status  int               `expr:"status"`
	Body    string            `expr:"body"`
	Res     any               `expr:"res"`
	Headers map[string]string `expr:"headers"` // names in lower case, first values
	Rounds  *rounds           `expr:"_rounds"`
}

// oldPath is the older spelling of a path, {res.code}.
var oldPath = regexp.MustCompile(`\{\s*((?:res|status|body|headers)(?:\.\w+|\[\w+\])*)\s*\}`)

// modern rewrites the older spelling outside of texts. The braces become blanks, so that positions stay.
func modern(src string) string {
	var b strings.Builder
	for len(src) > 0 {
		i := strings.IndexAny(src, "\"'`")
		if i < 0 {
			i = len(src)
		}
		b.WriteString(oldPath.ReplaceAllStringFunc(src[:i], func(s string) string { return " " + s[1:len(s)-1] + " " }))
		if i == len(src) {
			break
		}
		end := textEnd(src[i:])
		b.WriteString(src[i : i+end])
		src = src[i+end:]
	}
	return b.String()
}

// textEnd is where the text that s begins with ends.
func textEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] != '`':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return len(s)
}

// lenient turns every step of a path into a call of step: what is not there is nil, and nil is not an error.
type lenient struct{ usesRes bool }

func (l *lenient) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.MemberNode:
		if !n.Method {
			ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: "_step"}, Arguments: []ast.Node{n.Node, n.Property}})
		}
	case *ast.PredicateNode:
		n.Node = &ast.CallNode{Callee: &ast.IdentifierNode{Value: "_tick"}, Arguments: []ast.Node{&ast.IdentifierNode{Value: "_rounds"}, n.Node}}
	case *ast.IdentifierNode:
		if n.Value == "res" {
			l.usesRes = true
		}
	}
}

// step is base[key], or nil.
func step(params ...any) (any, error) {
	switch base := params[0].(type) {
	case map[string]any:
		key, _ := params[1].(string)
		return base[key], nil
	case map[string]string:
		key, _ := params[1].(string)
		return base[strings.ToLower(key)], nil
	case []any:
		if i, ok := params[1].(int); ok {
			if i < 0 {
				i += len(base)
			}
			if i >= 0 && i < len(base) {
				return base[i], nil
			}
		}
		return nil, nil
	case nil, string:
		return nil, nil
	}
	return fetch(params[0], params[1]), nil
}

// fetch serves what functions of the language make, like split's []string.
func fetch(base, key any) (v any) {
	defer func() {
		if recover() != nil {
			v = nil
		}
	}()
	return runtime.Fetch(base, key)
}

// rounds counts the rounds of an evaluation's loops. Nested over an answer of 64 KiB they could hold a slot for minutes, and the
// machine knows no deadline.
type rounds struct{ left int }

var errRounds = errors.New("its loops take too many rounds")

func tick(params ...any) (any, error) {
	r, ok := params[0].(*rounds)
	if !ok {
		return nil, errRounds
	}
	if r.left--; r.left < 0 {
		return nil, errRounds
	}
	return params[1], nil
}

// maxNodes bounds an expression, memoryBudget what it may make while it runs, maxRounds its loops.
const (
	maxNodes     = 500
	memoryBudget = 100_000
	maxRounds    = 100_000
)

// CompileRetryIf compiles an expression that says, after an answer, whether the call must be repeated. An error names the position.
func CompileRetryIf(src string) (p *Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("it cannot be compiled: %v", r)
		}
	}()
	var l lenient
	program, err := expr.Compile(modern(src), expr.Env(environment{}), expr.AsBool(), expr.Patch(&l), expr.MaxNodes(maxNodes),
		expr.Function("_step", step, new(func(any, any) any)), expr.Function("_tick", tick, new(func(any, any) any)))
	var fe *file.Error
	if errors.As(err, &fe) {
		return nil, fmt.Errorf("line %d, column %d: %s%s", fe.Line, fe.Column+1, fe.Message, fe.Snippet)
	}
	if err != nil {
		return nil, err
	}
	return &Program{program: program, usesRes: l.usesRes}, nil
}

// run evaluates the expression on an answer. A panic in it is an error of the expression.
func (p *Program) run(status int, header http.Header, body []byte) (retry bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	env := environment{Status: status, Body: string(body), Headers: make(map[string]string, len(header)), Rounds: &rounds{left: maxRounds}}
	for k, v := range header {
		env.Headers[strings.ToLower(k)] = v[0]
	}
	if p.usesRes {
		env.Res = parse(body)
	}
	machine := vm.VM{MemoryBudget: memoryBudget}
	v, err := machine.Run(p.program, env)
	if err != nil {
		return false, err
	}
	retry, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("it gave %T, not true or false", v)
	}
	return retry, nil
}

// parse is the answer as JSON, nil when it is none. Whole numbers are integers, so that large ids compare exactly.
func parse(body []byte) any {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil
	}
	return numbers(v)
}

func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return int(n)
		}
		f, err := x.Float64()
		if err != nil {
			return math.Inf(1)
		}
		return f
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	}
	return v
}

// Try judges an answer as a call would: for people who write an expression.
func (p *Program) Try(status int, header http.Header, body []byte) (retry bool, err error) {
	return p.run(status, header, body)
}
