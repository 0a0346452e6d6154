package server

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// Depths of nesting. A single value deeper than maxDepth is refused; a whole batch is only given up past maxScanDepth,
// so that one deep member does not fail its neighbours.
const (
	maxDepth     = 128
	maxScanDepth = 1024
)

// scanner reads JSON (RFC 8259) from a buffer without copying: a value is the slice of the buffer that holds it.
type scanner struct {
	data  []byte
	pos   int
	depth int  // most levels of nesting a value may have
	text  bool // strings must be valid UTF-8
}

// errorf makes the problem of malformed JSON at the scanner's position.
func (s *scanner) errorf(format string, args ...any) error {
	return &Problem{Status: 400, Title: "Malformed JSON", Detail: fmt.Sprintf(format, args...) + fmt.Sprintf(" (at byte %d)", s.pos)}
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end. A NUL in the text is no JSON either, so both are refused alike.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// expect eats one byte after white space.
func (s *scanner) expect(c byte, where string) error {
	s.space()
	if s.peek() != c {
		return s.errorf("expected %q %s, got %s", c, where, s.got())
	}
	s.pos++
	return nil
}

// end refuses anything but white space.
func (s *scanner) end() error {
	s.space()
	if s.pos < len(s.data) {
		return s.errorf("unexpected %s after the JSON value", s.got())
	}
	return nil
}

// got describes what stands at the position, for messages.
func (s *scanner) got() string {
	if s.pos >= len(s.data) {
		return "the end"
	}
	if kind := kindOf(s.data[s.pos]); kind != "" {
		return kind
	}
	return fmt.Sprintf("%q", rune(s.data[s.pos]))
}

// kindOf names the kind of the value that starts with c; "" starts none.
func kindOf(c byte) string {
	switch {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == 'n':
		return "null"
	}
	return ""
}

// nesting remembers for each open level whether it is an object, without recursion and without allocation.
type nesting struct {
	depth int
	bits  [maxScanDepth/64 + 1]uint64
}

func (n *nesting) push(object bool) {
	n.depth++
	word, bit := n.depth/64, uint64(1)<<(n.depth%64)
	if object {
		n.bits[word] |= bit
	} else {
		n.bits[word] &^= bit
	}
}

func (n *nesting) object() bool { return n.bits[n.depth/64]&(1<<(n.depth%64)) != 0 }

// value skips one value of any kind and returns its bytes.
func (s *scanner) value() ([]byte, error) {
	s.space()
	start := s.pos
	if c := s.peek(); c != '{' && c != '[' {
		err := s.scalar()
		return s.data[start:s.pos], err
	}
	if err := s.compound(); err != nil {
		return nil, err
	}
	return s.data[start:s.pos], nil
}

func (s *scanner) compound() error {
	var open nesting
	for {
		entered, err := s.enter(&open)
		if err != nil {
			return err
		}
		if entered {
			continue
		}
		done, err := s.leave(&open)
		if err != nil || done {
			return err
		}
	}
}

// enter reads the start of a value. It returns true when it stands before the first value inside of a new level, false
// after a complete value.
func (s *scanner) enter(open *nesting) (bool, error) {
	s.space()
	c := s.peek()
	if c != '{' && c != '[' {
		return false, s.scalar()
	}
	if open.depth >= s.depth {
		return false, s.errorf("nested deeper than %d levels", s.depth)
	}
	s.pos++
	s.space()
	if s.peek() == c+2 { // '{'+2 is '}', '['+2 is ']'
		s.pos++
		return false, nil
	}
	open.push(c == '{')
	if c == '{' {
		_, err := s.key()
		return true, err
	}
	return true, nil
}

// leave reads what follows a value: closing brackets, or the comma before the next value. It returns true when the
// outermost level is closed.
func (s *scanner) leave(open *nesting) (bool, error) {
	for open.depth > 0 {
		s.space()
		object := open.object()
		switch c := s.peek(); {
		case c == ',':
			s.pos++
			if object {
				_, err := s.key()
				return false, err
			}
			return false, nil
		case c == '}' && object, c == ']' && !object:
			s.pos++
			open.depth--
		case object:
			return false, s.errorf("expected ',' or '}' in an object, got %s", s.got())
		default:
			return false, s.errorf("expected ',' or ']' in an array, got %s", s.got())
		}
	}
	return true, nil
}

// key reads a member's name and the colon after it.
func (s *scanner) key() ([]byte, error) {
	s.space()
	if s.peek() != '"' {
		return nil, s.errorf("expected a member's name in double quotes, got %s", s.got())
	}
	raw, escaped, err := s.str()
	if err != nil {
		return nil, err
	}
	if escaped {
		if raw, err = s.unescape(raw); err != nil {
			return nil, err
		}
	}
	return raw, s.expect(':', "after a member's name")
}

func (s *scanner) scalar() error {
	switch c := s.peek(); {
	case c == '"':
		_, _, err := s.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	}
	return s.errorf("expected a JSON value, got %s", s.got())
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return s.errorf("expected %s", word)
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return s.errorf("a number needs a digit, got %s", s.got())
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return s.errorf("a number needs a digit after the point, got %s", s.got())
		}
	}
	if c := s.peek(); c != 'e' && c != 'E' {
		return nil
	}
	s.pos++
	if c := s.peek(); c == '+' || c == '-' {
		s.pos++
	}
	if !s.digits() {
		return s.errorf("a number needs a digit in its exponent, got %s", s.got())
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' < 10 {
		s.pos++
	}
	return s.pos > start
}

// str reads a string and returns what stands between its quotes, and whether that holds escapes.
func (s *scanner) str() (raw []byte, escaped bool, err error) {
	s.pos++
	start, high := s.pos, false
	for {
		s.pos += plainLen(s.data[s.pos:])
		if s.pos >= len(s.data) {
			return nil, false, s.errorf("a string does not end")
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			raw = s.data[start:s.pos]
			if high && s.text && !utf8.Valid(raw) {
				s.pos = start
				return nil, false, s.errorf("a string is not valid UTF-8")
			}
			s.pos++
			return raw, escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, false, err
			}
		case c < ' ':
			return nil, false, s.errorf("control character 0x%02x in a string; write it as an escape", c)
		default:
			high = true
			s.pos++
		}
	}
}

// plainLen is how many bytes of ASCII stand at the beginning that are nothing but themselves in a string.
func plainLen(b []byte) int {
	for i, c := range b {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return len(b)
}

func (s *scanner) escape() error {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return nil
	case 'u':
		if len(s.data)-s.pos < 5 || hex4(s.data[s.pos+1:]) < 0 {
			return s.errorf("\\u needs four hexadecimal digits")
		}
		s.pos += 5
		return nil
	}
	return s.errorf("unknown escape in a string")
}

// hex4 reads four hexadecimal digits; -1 if they are none.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// unescape decodes a string that str accepted. Half of a surrogate pair is not text, and refused.
func (s *scanner) unescape(raw []byte) ([]byte, error) {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}
		i++
		if at := bytes.IndexByte(escapeNames, raw[i]); at >= 0 {
			out = append(out, escapeValues[at])
			continue
		}
		r := hex4(raw[i+1:])
		i += 4
		if utf16.IsSurrogate(r) {
			if len(raw)-i < 7 || raw[i+1] != '\\' || raw[i+2] != 'u' {
				return nil, s.errorf("half of a surrogate pair in a string")
			}
			r = utf16.DecodeRune(r, hex4(raw[i+3:]))
			if r == utf8.RuneError {
				return nil, s.errorf("half of a surrogate pair in a string")
			}
			i += 6
		}
		out = utf8.AppendRune(out, r)
	}
	return out, nil
}

var (
	escapeNames  = []byte(`"\/bfnrt`)
	escapeValues = []byte("\"\\/\b\f\n\r\t")
)

// object reads an object's members. visit is called before each value and must read it.
func (s *scanner) object(what string, visit func(key []byte) error) error {
	s.space()
	if s.peek() != '{' {
		return s.errorf("%s: expected an object, got %s", what, s.got())
	}
	s.pos++
	s.space()
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		key, err := s.key()
		if err != nil {
			return err
		}
		s.space()
		if err := visit(key); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return nil
		default:
			return s.errorf("expected ',' or '}' in an object, got %s", s.got())
		}
	}
}

// array reads an array's elements. visit is called before each one and must read it.
func (s *scanner) array(field string, visit func() error) error {
	if s.peek() != '[' {
		return s.wrongType(field, "an array")
	}
	s.pos++
	s.space()
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		s.space()
		if err := visit(); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return nil
		default:
			return s.errorf("expected ',' or ']' in an array, got %s", s.got())
		}
	}
}

// wrongType refuses the value at the position. What is no value at all is malformed JSON rather than a wrong type.
func (s *scanner) wrongType(field, expected string) error {
	got := ""
	if s.pos < len(s.data) {
		got = kindOf(s.data[s.pos])
	}
	if _, err := s.value(); err != nil {
		return err
	}
	return badField(field, "expected %s, got %s", expected, got)
}

// string reads a field that must be text.
func (s *scanner) string(field string) (string, error) {
	if s.peek() != '"' {
		return "", s.wrongType(field, "a string")
	}
	raw, escaped, err := s.str()
	if err != nil {
		return "", err
	}
	if !escaped {
		return string(raw), nil
	}
	plain, err := s.unescape(raw)
	if err != nil {
		return "", badField(field, "half of a surrogate pair is not text")
	}
	return string(plain), nil
}

// numeral reads a field that must be a number, as text.
func (s *scanner) numeral(field string) (string, error) {
	start := s.pos
	if kindOf(s.peek()) != "a number" {
		return "", s.wrongType(field, "a number")
	}
	if err := s.number(); err != nil {
		return "", err
	}
	return string(s.data[start:s.pos]), nil
}
