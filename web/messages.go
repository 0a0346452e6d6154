package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Messages are translations of English messages from other packages: errors of fields, results of checks, outcomes of
// callbacks. The code of a message is its English format, with the verbs of package fmt; a translation has the same
// verbs, or %[2]s where their order differs. Without a file messages.json, a language leaves all messages in English.
type Messages struct {
	formats map[string]string
	stored  []storedMessage
}

// storedMessage recognizes a message that was stored as text.
type storedMessage struct {
	format string
	form   *regexp.Regexp
}

var verb = regexp.MustCompile(`%(\[\d+\])?[-+.#0-9]*[a-z]`)

// LoadMessages reads locales/LANGUAGE/messages.json.
func LoadMessages() (map[string]*Messages, error) {
	all := map[string]*Messages{}
	for _, l := range Languages {
		m := &Messages{}
		all[l.Code] = m
		data, err := locales.ReadFile(path.Join("locales", l.Code, messagesFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &m.formats)
		}
		if err != nil {
			return nil, fmt.Errorf("read the messages in %s: %w", l.Code, err)
		}
		m.recognize()
	}
	return all, nil
}

const messagesFile = "messages.json"

func (m *Messages) recognize() {
	for _, format := range slices.Sorted(maps.Keys(m.formats)) {
		form := "(?s)^"
		rest := format
		for at := verb.FindStringIndex(rest); at != nil; at = verb.FindStringIndex(rest) {
			form += regexp.QuoteMeta(rest[:at[0]]) + "(.*?)"
			rest = rest[at[1]:]
		}
		form += regexp.QuoteMeta(strings.ReplaceAll(rest, "%%", "%")) + "$"
		m.stored = append(m.stored, storedMessage{format, regexp.MustCompile(form)})
	}
	// Most specific first: "%s: %s" matches nearly everything.
	slices.SortStableFunc(m.stored, func(a, b storedMessage) int {
		return cmp.Compare(len(verb.ReplaceAllString(b.format, "")), len(verb.ReplaceAllString(a.format, "")))
	})
}

// Message returns a formatted message, translated if there is a translation.
func (m *Messages) Message(format string, args ...any) string {
	if translated, ok := m.formats[format]; ok {
		return fmt.Sprintf(translated, args...)
	}
	return fmt.Sprintf(format, args...)
}

// Stored translates a message that was stored as text, and the messages nested in it; other texts stay as they are.
// word may alter parts that are not messages, such as durations.
func (m *Messages) Stored(text string, word func(string) string) string {
	if translated, ok := m.recognized(text, word); ok {
		return translated
	}
	for at := range text { // a finding followed by its advice
		rest, is := strings.CutPrefix(text[at:], ". ")
		if !is || at == 0 {
			continue
		}
		if advice, ok := m.recognized(rest, word); ok {
			return m.Stored(text[:at], word) + m.formats[". "] + advice
		}
	}
	return word(text)
}

func (m *Messages) recognized(text string, word func(string) string) (string, bool) {
	for _, s := range m.stored {
		found := s.form.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		args := make([]any, len(found)-1)
		for i, part := range found[1:] {
			args[i] = m.Stored(part, word)
		}
		return fmt.Sprintf(verb.ReplaceAllString(m.formats[s.format], "%${1}s"), args...), true
	}
	return "", false
}
