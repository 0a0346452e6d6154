package store

import (
	"encoding/json"
	"fmt"
	"strings"
)

// a:TOPIC/ID is a list of a job's last HistoryLimit attempts, each as JSON. Only this file makes and reads them.

// expiredError is the error of an attempt whose lease expired.
const expiredError = "lease expired before an outcome was reported"

// encodeAttempt returns an attempt as it is stored.
func encodeAttempt(a *Attempt) string {
	if a == nil {
		return ""
	}
	text, _ := json.Marshal(a) // numbers and texts: cannot fail
	return withoutSpaces(text)
}

// decodeAttempts decodes a list of attempts. One that was stored without its number follows the one before it.
func decodeAttempts(v any) ([]Attempt, error) {
	list := Values(v)
	if len(list) == 0 {
		return nil, nil
	}
	history := make([]Attempt, len(list))
	for i, v := range list {
		if err := json.Unmarshal([]byte(Text(v)), &history[i]); err != nil {
			return nil, fmt.Errorf("attempt %.60q: %w", v, ErrRecord)
		}
		if history[i].N == 0 {
			history[i].N = 1
			if i > 0 {
				history[i].N = history[i-1].N + 1
			}
		}
	}
	return history, nil
}

// lastAttempts returns the last HistoryLimit attempts.
func lastAttempts(history []Attempt) []Attempt {
	return history[max(0, len(history)-HistoryLimit):]
}

// AppendAttempts appends how many attempts a job has, and these, as arguments of a script.
func AppendAttempts(args []any, history []Attempt) []any {
	history = lastAttempts(history)
	args = append(args, len(history))
	for i := range history {
		args = append(args, encodeAttempt(&history[i]))
	}
	return args
}

// shorten returns the beginning of a text, at most n bytes of valid UTF-8.
func shorten(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }
