package server

import (
	"mime"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"
)

// rawOptions are the query parameters of a raw push.
var rawOptions = []string{"delay", "due_at", "time_zone", "priority", "ttr", "max_attempts", "on_duplicate", "ttl",
	"expires_at", "headers[NAME]", "retry", "group", "key", "url", "wait", "on_timeout"}

func (s *Server) pushRaw(c *call) error {
	if err := c.readID(); err != nil {
		return err
	}
	var r pushRequest
	if err := r.options(c.query); err != nil {
		return err
	}
	r.ID.value = jobID(c.id)
	contentType, err := parseContentType(c.Request().Header.Get(echo.HeaderContentType))
	if err != nil {
		return err
	}
	return s.withBody(c, int64(s.limits.MaxBody), func(body *buffer) error {
		p, err := r.push(c.topic, body.b, s.limits.MaxBody, s.opts.Now())
		if err != nil {
			return err
		}
		p.ContentType = contentType
		return s.store(c, &r, &p, body)
	})
}

// options reads the query of a raw push. A value that looks like a JSON number is read as a number, any other as a
// string.
func (r *pushRequest) options(query url.Values) error {
	if len(query) == 0 {
		return nil
	}
	options, headers := map[string]any{}, map[string]string{}
	for name, texts := range query {
		if header, is := memberOf("headers", name); is {
			headers[header] = texts[0]
			options["headers"] = headers
			continue
		}
		option, err := optionValue(name, texts[0])
		if name == "retry" {
			option, err = listValue(texts[0])
		}
		if err != nil {
			return badField(name, "not valid UTF-8")
		}
		options[name] = option
	}
	data, err := json.Marshal(options)
	if err != nil {
		return err
	}
	return decode(data, r)
}

// memberOf returns NAME of a parameter object[NAME].
func memberOf(object, parameter string) (name string, is bool) {
	name, is = strings.CutPrefix(parameter, object+"[")
	if !is {
		return "", false
	}
	return strings.CutSuffix(name, "]")
}

// listValue reads values that are separated by commas.
func listValue(text string) (jsontext.Value, error) {
	list := []jsontext.Value{}
	for item := range strings.SplitSeq(text, ",") {
		v, err := optionValue("", strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return json.Marshal(list)
}

func optionValue(name, text string) (jsontext.Value, error) {
	if v := jsontext.Value(text); name != "group" && name != "key" && v.Kind() == jsontext.KindNumber && v.IsValid() {
		return v, nil
	}
	// An unencoded plus sign arrives as a space. It is the sign of the time zone, unless a time without seconds
	// follows.
	if at := len(text) - len("+00:00"); name == "due_at" && at > len("2030-01-31") && text[at] == ' ' {
		text = text[:at] + "+" + text[at+1:]
	}
	return jsontext.AppendQuote(nil, text)
}

const maxContentTypeBytes = 127

// parseContentType validates the media type of a raw body. The default, application/json, is not stored.
func parseContentType(value string) (string, error) {
	value = strings.TrimSpace(value)
	if value == "" || value == "application/json" {
		return "", nil
	}
	const field = "Content-Type"
	if len(value) > maxContentTypeBytes {
		return "", badField(field, "%d bytes; the limit is %d", len(value), maxContentTypeBytes)
	}
	for i := range len(value) {
		if value[i] < ' ' || value[i] >= 0x7f {
			return "", badField(field, "must be printable ASCII")
		}
	}
	kind, _, err := mime.ParseMediaType(value)
	if err != nil || !strings.Contains(kind, "/") {
		return "", badField(field, "must be a media type like text/plain, got %q", clip(value))
	}
	return value, nil
}
