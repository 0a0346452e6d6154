package phpdq

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/wakecall/wakecall/internal/message"
)

// mark is a retry mark: an expression that is true for a response if the call must be repeated.
type mark struct{ root node }

// maxNodes bounds the size of an expression, and so the depth of its evaluation.
const maxNodes = 500

// compileMark compiles an expression of {res.a.b}, quoted strings, numbers, true, false, null, parentheses and the
// operators == != === !== <> < <= > >= && || and !. Errors name the position.
func compileMark(source string) (*mark, error) {
	p := &parser{source: source}
	if err := p.scan(); err != nil {
		return nil, err
	}
	if len(p.tokens) > maxNodes {
		return nil, message.New("mark.parts", len(p.tokens), maxNodes)
	}
	root, err := p.or()
	if err == nil && p.next().kind != endToken {
		err = p.unexpected()
	}
	if err != nil {
		return nil, err
	}
	return &mark{root}, nil
}

// again reports whether a response requests another call. One that is neither an object nor a list does not.
func (m *mark) again(answer []byte) bool {
	if b := bytes.TrimLeft(answer, " \t\r\n"); len(b) == 0 || b[0] != '{' && b[0] != '[' {
		return false
	}
	var res any
	if err := json.Unmarshal(answer, &res, json.JoinOptions(lenient...)); err != nil {
		return false
	}
	return truth(m.root(res))
}

// node evaluates a part of an expression for a response.
type node func(res any) any

type tokenKind uint8

const (
	endToken tokenKind = iota
	valueToken
	operator
)

type token struct {
	kind  tokenKind
	text  string // the operator
	value node
	at    int
}

type parser struct {
	source string
	tokens []token
	i      int
}

// operators lists the operators, longer ones first.
var operators = []string{"===", "!==", "==", "!=", "<>", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")"}

func (p *parser) scan() error {
	for at := 0; at < len(p.source); {
		rest := p.source[at:]
		c := rest[0]
		var size int
		var err error
		t := token{kind: valueToken, at: at}
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			at++
			continue
		case c == '{':
			t.value, size, err = path(rest)
		case c == '\'' || c == '"':
			t.value, size, err = literal(rest)
		case c >= '0' && c <= '9' || c == '.' || c == '-':
			t.value, size, err = numberLiteral(rest)
		case unicode.IsLetter(rune(c)):
			t.value, size, err = word(rest)
		default:
			t.kind = operator
			i := slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(rest, o) })
			if i < 0 {
				err = message.New("mark.refused", string(rune(c)))
				break
			}
			t.text, size = operators[i], len(operators[i])
		}
		if err != nil {
			return message.New("mark.column", at+1, err)
		}
		p.tokens = append(p.tokens, t)
		at += size
	}
	p.tokens = append(p.tokens, token{at: len(p.source)})
	return nil
}

// path parses {res.a.b}. A missing member is null.
func path(s string) (node, int, error) {
	end := strings.IndexByte(s, '}')
	if end < 0 {
		return nil, 0, message.New("mark.brace")
	}
	names := strings.Split(strings.TrimSpace(s[1:end]), ".")
	if names[0] != "res" || strings.Contains(s[1:end], "..") {
		return nil, 0, message.New("mark.path", s[:end+1])
	}
	return func(v any) any {
		for _, name := range names[1:] {
			v = child(v, name)
		}
		return v
	}, end + 1, nil
}

func child(v any, name string) any {
	switch x := v.(type) {
	case map[string]any:
		return x[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(x) {
			return x[i]
		}
	}
	return nil
}

// literal parses a quoted string, in which \\ is a backslash, and \ before a quote is that quote.
func literal(s string) (node, int, error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			text := b.String()
			return func(any) any { return text }, i + 1, nil
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == s[0] || s[i+1] == '\\'):
			i++
			fallthrough
		default:
			b.WriteByte(s[i])
		}
	}
	return nil, 0, message.New("mark.quote", s[:1])
}

func numberLiteral(s string) (node, int, error) {
	size := 1
	for size < len(s) && strings.IndexByte("0123456789.eE", s[size]) >= 0 {
		size++
	}
	f, err := strconv.ParseFloat(s[:size], 64)
	if err != nil {
		return nil, 0, message.New("mark.number", s[:size])
	}
	return func(any) any { return f }, size, nil
}

var words = map[string]any{"true": true, "false": false, "null": nil}

func word(s string) (node, int, error) {
	size := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' })
	if size < 0 {
		size = len(s)
	}
	value, ok := words[strings.ToLower(s[:size])]
	if !ok {
		return nil, 0, message.New("mark.word", s[:size])
	}
	return func(any) any { return value }, size, nil
}

func (p *parser) next() token { return p.tokens[p.i] }

// take consumes the next token if it is one of these operators.
func (p *parser) take(which ...string) (string, bool) {
	t := p.next()
	if t.kind != operator || !slices.Contains(which, t.text) {
		return "", false
	}
	p.i++
	return t.text, true
}

func (p *parser) unexpected() error {
	t := p.next()
	if t.kind == endToken {
		return message.New("mark.column", t.at+1, message.New("mark.end"))
	}
	return message.New("mark.column", t.at+1, message.New("mark.unexpected", p.source[t.at:]))
}

func (p *parser) or() (node, error) {
	return p.chain("||", p.and, func(a, b bool) bool { return a || b })
}

func (p *parser) and() (node, error) {
	equality := func() (node, error) { return p.compare("==", "!=", "===", "!==", "<>") }
	return p.chain("&&", equality, func(a, b bool) bool { return a && b })
}

// chain parses operands joined by one operator.
func (p *parser) chain(op string, operand func() (node, error), join func(a, b bool) bool) (node, error) {
	left, err := operand()
	for err == nil {
		if _, ok := p.take(op); !ok {
			break
		}
		a, b := left, node(nil)
		if b, err = operand(); err == nil {
			left = func(v any) any { return join(truth(a(v)), truth(b(v))) }
		}
	}
	return left, err
}

// compare parses equality comparisons, whose operands may be order comparisons.
func (p *parser) compare(which ...string) (node, error) {
	operand := p.unary
	if which[0] == "==" {
		operand = func() (node, error) { return p.compare("<", "<=", ">", ">=") }
	}
	left, err := operand()
	if err != nil {
		return nil, err
	}
	o, ok := p.take(which...)
	if !ok {
		return left, nil
	}
	right, err := operand()
	if err != nil {
		return nil, err
	}
	return func(v any) any { return comparisons[o](left(v), right(v)) }, nil
}

func (p *parser) unary() (node, error) {
	if _, ok := p.take("!"); ok {
		inner, err := p.unary()
		if err != nil {
			return nil, err
		}
		return func(v any) any { return !truth(inner(v)) }, nil
	}
	if _, ok := p.take("("); ok {
		inner, err := p.or()
		if err != nil {
			return nil, err
		}
		if _, ok := p.take(")"); !ok {
			return nil, p.unexpected()
		}
		return inner, nil
	}
	t := p.next()
	if t.kind != valueToken {
		return nil, p.unexpected()
	}
	p.i++
	return t.value, nil
}
