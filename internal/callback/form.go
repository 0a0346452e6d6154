package callback

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
)

// members encodes the top-level members of an object as a query, in their order: strings unchanged, null as an empty
// string, other values as JSON. It omits members whose names are in own.
func members(body []byte, own url.Values) (string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", errBody
	}
	var b strings.Builder
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", errBody
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return "", errBody
		}
		name, _ := key.(string)
		if own.Has(name) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(name) + "=" + url.QueryEscape(plainValue(raw)))
	}
	if _, err := d.Token(); err != nil {
		return "", errBody
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // more than the object
		return "", errBody
	}
	return b.String(), nil
}

func plainValue(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
	case 'n':
		return ""
	case '{', '[':
		var b bytes.Buffer
		if json.Compact(&b, raw) == nil {
			return b.String()
		}
	}
	return string(raw)
}

// withQuery puts the job's parameters before those of the URL. So the URL's win in an endpoint that treats two names as
// one, as PHP does with k[] and k.
func withQuery(u *url.URL, query string) *url.URL {
	if query == "" {
		return u
	}
	v := *u
	if v.RawQuery != "" {
		query += "&"
	}
	v.RawQuery = query + v.RawQuery
	return &v
}
