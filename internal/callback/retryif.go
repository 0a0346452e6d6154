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

	"github.com/wakecall/wakecall/internal/message"
)

// Program is a compiled retry_if expression. It may be used by many calls at once.
type Program struct {
	program *vm.Program
	usesRes bool
	turn    *turn
}

// environment holds the variables of an expression.
type environment struct {
	Status  int               `expr:"status"`
	Body    string            `expr:"body"`
	Res     any               `expr:"res"`
	Headers map[string]string `expr:"headers"` // names in lower case, first values
	Meter   *meter            `expr:"_meter"`
}

// oldPath matches the older spelling of a path, {res.code}.
var oldPath = regexp.MustCompile(`\{\s*((?:res|status|body|headers)(?:\.\w+|\[\w+\])*)\s*\}`)

// modern rewrites the older spelling outside string literals. Braces become spaces, so that positions do not change.
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

// textEnd returns the end of the string literal that s begins with.
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

// maxNodes bounds the size of an expression, memoryBudget the elements that the virtual machine itself creates.
const (
	maxNodes     = 500
	memoryBudget = 100_000
)

// CompileRetryIf compiles an expression that decides from a response whether the attempt failed. It accepts only the
// part of the language listed in docs/guides/callbacks.md. Errors name the position.
func CompileRetryIf(src string) (p *Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("compile expression: %v", r)
		}
	}()
	src = modern(src)
	types := &allowed{}
	if _, err := compile(src, types); err != nil {
		return nil, positioned(err)
	}
	if types.err != nil {
		return nil, positioned(types.err.Bind(file.NewSource(src)))
	}
	program, err := compile(src, &metered{})
	if err != nil {
		return nil, positioned(err)
	}
	return &Program{program: program, usesRes: types.usesRes, turn: newTurn()}, nil
}

func compile(src string, v ast.Visitor) (*vm.Program, error) {
	options := []expr.Option{
		expr.Env(environment{}), expr.AsBool(), expr.Patch(v), expr.MaxNodes(maxNodes), expr.Optimize(false),
		expr.DisableAllBuiltins(), expr.Function("_do", do, new(func(*meter, string, ...any) any)),
	}
	for name := range loops {
		options = append(options, expr.EnableBuiltin(name))
	}
	for name, f := range functions {
		options = append(options, expr.Function(name, do, f.typ))
	}
	return expr.Compile(src, options...)
}

func positioned(err error) error {
	var fe *file.Error
	if !errors.As(err, &fe) {
		return err
	}
	what := message.Plain(fe.Message)
	if own := errors.Unwrap(fe); own != nil {
		what = message.New("", own)
	}
	return message.New("expression.position", fe.Line, fe.Column+1, what, fe.Snippet)
}

// run evaluates the expression for a response. It returns a panic as an error.
func (p *Program) run(status int, header http.Header, body []byte) (retry bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	body = body[:min(len(body), maxAnswer)]
	env := environment{
		Status: status, Body: string(body), Headers: make(map[string]string, len(header)), Meter: &meter{left: budget},
	}
	for k, v := range header {
		env.Headers[strings.ToLower(k)] = v[0]
	}
	cost := 0
	if p.usesRes {
		env.Res, cost = parse(body), len(body)
	}
	defer func() { p.turn.note(cost + budget - env.Meter.left) }()
	machine := vm.VM{MemoryBudget: memoryBudget}
	v, err := machine.Run(p.program, env)
	if errors.Is(err, errBudget) {
		return false, errBudget
	}
	if err != nil {
		return false, err
	}
	retry, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("result is %T, not true or false", v)
	}
	return retry, nil
}

// withoutMark returns a text without the byte-order mark that it may begin with, which is no JSON.
func withoutMark(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\ufeff")) }

// parse decodes the response as JSON, and returns nil for other responses. Whole numbers become integers, so that large
// ids compare exactly.
func parse(body []byte) any {
	d := json.NewDecoder(bytes.NewReader(withoutMark(body)))
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

// readable returns an error if the expression uses res, and the response is not JSON.
func (p *Program) readable(body []byte) error {
	if !p.usesRes {
		return nil
	}
	rest := withoutMark(body)
	err := json.Unmarshal(rest, new(json.RawMessage))
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("the answer is not JSON: %w at byte %d", se, len(body)-len(rest)+int(se.Offset))
	}
	return err
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
