package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Problem is an error together with the response to send.
type Problem struct {
	Status int
	Body   any // encoded as JSON
}

func (p *Problem) Error() string { return fmt.Sprint(p.Status, ": ", p.Body) }

// WriteJSON writes and flushes a response. It returns an error if the response was not sent.
func WriteJSON(w http.ResponseWriter, contentType string, status int, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// RetryAfter sets the Retry-After header and returns its value: whole seconds, rounded up.
func RetryAfter(w http.ResponseWriter, wait time.Duration) (seconds string) {
	seconds = strconv.Itoa(int((wait + time.Second - 1) / time.Second))
	w.Header().Set("Retry-After", seconds)
	return seconds
}
