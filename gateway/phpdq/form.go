package phpdq

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// form encodes the body as a form or a query. As in PHP, nested values become the word Array.
func (b body) form() string { return b.pairs().encode() }

// query returns the query of a GET: first the parameters of the URL, with the values of members of the same name, then
// the other members.
func (b body) query(address string) string {
	pairs := parseQuery(address)
	for _, p := range b.pairs() {
		pairs = pairs.with(p)
	}
	return pairs.encode()
}

type pair struct{ name, value string }

type pairs []pair

func (b body) pairs() pairs {
	list := make(pairs, len(b))
	for i, m := range b {
		list[i] = pair{m.name, plain(m.value)}
	}
	return list
}

func (ps pairs) with(p pair) pairs {
	i := slices.IndexFunc(ps, func(known pair) bool { return known.name == p.name })
	if i < 0 {
		return append(ps, p)
	}
	ps[i] = p
	return ps
}

func (ps pairs) encode() string {
	var out strings.Builder
	for i, p := range ps {
		if i > 0 {
			out.WriteByte('&')
		}
		out.WriteString(escape(p.name) + "=" + escape(p.value))
	}
	return out.String()
}

// parseQuery parses a query like PHP's parse_str: spaces and dots in names become underscores, and a[] is the array a.
func parseQuery(query string) (list pairs) {
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		p := pair{strings.TrimLeft(unescape(name), " "), unescape(value)}
		if array, _, found := strings.Cut(p.name, "["); found {
			p = pair{array, nested}
		}
		if p.name = strings.NewReplacer(" ", "_", ".", "_").Replace(p.name); p.name != "" {
			list = list.with(p)
		}
	}
	return list
}

func unescape(s string) string {
	if text, err := url.QueryUnescape(s); err == nil {
		return text
	}
	return s
}

const nested = "Array"

// plain converts a value to text like PHP.
func plain(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		return textOf(v)
	case 't':
		return "1"
	case '0':
		return phpNumber(string(v))
	case '{', '[':
		return nested
	}
	return ""
}

// phpNumber formats a number like PHP: integers unchanged, others with 14 digits.
func phpNumber(s string) string {
	if _, err := strconv.ParseInt(s, 10, 64); err == nil {
		return s
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return "INF"
	}
	return phpFloat(f)
}

func phpFloat(f float64) string {
	s := strconv.FormatFloat(f, 'G', 14, 64)
	mantissa, exponent, found := strings.Cut(s, "E")
	if !found {
		return s
	}
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	return mantissa + "E" + exponent[:1] + strings.TrimLeft(exponent[1:], "0")
}

// escape is PHP's rawurlencode.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
