// Package message defines texts for people that do not belong to a page: field errors, findings about shards and
// endpoints, outcomes of tasks. A Message is a code with arguments. Its text is in en.json and zh-Hans.json.
//
// The API, logs and the command line use English. The web admin and alert messages use the reader's language, so what
// they show later is stored as a Message. Texts that only pages use are in web/locales, in the same form.
package message

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Message is a text that is available in every language. The arguments of a stored one are strings, numbers and
// messages.
type Message struct {
	Code string `json:"code,omitempty"` // empty: the argument is the text, such as an error of Redis
	Args []any  `json:"args,omitempty"`
}

// New returns the message with a code.
func New(code string, args ...any) Message { return Message{code, args} }

// Plain returns a message that has the same text in every language.
func Plain(text string) Message { return Message{Args: []any{text}} }

// IsZero reports whether there is no message.
func (m Message) IsZero() bool { return m.Code == "" && len(m.Args) == 0 }

// Error returns the text in English.
func (m Message) Error() string { return english.Say(m, sprint) }

// UnmarshalJSON keeps numbers as they are written: as a float64, 1234567 would be printed as 1.234567e+06.
func (m *Message) UnmarshalJSON(data []byte) error {
	var stored struct {
		Code string            `json:"code"`
		Args []json.RawMessage `json:"args"`
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*m = Message{Code: stored.Code}
	for _, raw := range stored.Args {
		arg, err := decodeArg(raw)
		if err != nil {
			return err
		}
		m.Args = append(m.Args, arg)
	}
	return nil
}

func decodeArg(raw []byte) (arg any, err error) {
	if bytes.HasPrefix(raw, []byte("{")) {
		var nested Message
		err = json.Unmarshal(raw, &nested)
		return nested, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&arg)
	return arg, err
}

// Texts are the texts of one language by code. {0} stands for the first argument, and {0:q} for the same in quotes,
// escaped and clipped, for untrusted input.
type Texts map[string]string

//go:embed *.json
var catalogues embed.FS

// Catalogue returns the texts of all messages in a language.
func Catalogue(language string) (Texts, error) {
	data, err := catalogues.ReadFile(language + ".json")
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	var texts Texts
	if err := json.Unmarshal(data, &texts); err != nil {
		return nil, fmt.Errorf("read messages in %s: %w", language, err)
	}
	return texts, nil
}

var english = mustEnglish()

// mustEnglish panics only if the embedded file is invalid, which the tests rule out.
func mustEnglish() Texts {
	texts, err := Catalogue("en")
	if err != nil {
		panic(err)
	}
	return texts
}

// T returns the text of a code with its arguments.
func (t Texts) T(code string, args ...any) string { return t.Say(Message{code, args}, sprint) }

// Say returns a message in the language. word formats the arguments that are not quoted. If the first argument is the
// number 1, Say uses the text CODE.one if there is one. If a code has no text, it returns the code; tests ensure that
// this does not happen.
func (t Texts) Say(m Message, word func(any) string) string {
	text, ok := t[m.Code]
	if len(m.Args) > 0 && fmt.Sprint(m.Args[0]) == "1" {
		if one, found := t[m.Code+".one"]; found {
			text, ok = one, true
		}
	}
	switch {
	case m.Code == "" && len(m.Args) > 0:
		text = "{0}"
	case !ok:
		return m.Code
	case len(m.Args) == 0:
		return text
	}
	pairs := make([]string, 0, 4*len(m.Args))
	for i, arg := range m.Args {
		said := t.say(arg, word)
		pairs = append(pairs, "{"+strconv.Itoa(i)+"}", said, "{"+strconv.Itoa(i)+":q}", quote(arg))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func (t Texts) say(arg any, word func(any) string) string {
	if nested, ok := arg.(Message); ok {
		return t.Say(nested, word)
	}
	return word(arg)
}

// Has reports whether a code has a text.
func (t Texts) Has(code string) bool {
	_, ok := t[code]
	return ok
}

const maxQuoted = 80 // characters

func quote(arg any) string { return fmt.Sprintf("%.*q", maxQuoted, fmt.Sprint(arg)) }

func sprint(arg any) string { return fmt.Sprint(arg) }
