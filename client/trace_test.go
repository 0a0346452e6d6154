package client

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"
)

// TestTraceparents: a push has it in its JSON, a raw one in the header.
func TestTraceparents(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var sent []string
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Traceparent string
			Jobs        []struct{ Traceparent string }
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // of a raw push: not JSON
		sent = append(sent, r.Header.Get("Traceparent"), body.Traceparent)
		if body.Jobs != nil {
			sent = append(sent, body.Jobs[0].Traceparent)
			_, _ = io.WriteString(w, `{"results":[{"id":"1"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"1","traceparent":"`+trace+`"}`)
	}), 0)
	j, err := c.Push(t.Context(), "t", Push{Body: json.RawMessage("1"), Traceparent: trace})
	if err != nil || j.Traceparent != trace {
		t.Error(j, err)
	}
	if _, err := c.PushRaw(t.Context(), "t", RawPush{ID: "1", Traceparent: trace}); err != nil {
		t.Error(err)
	}
	push := Push{Topic: "t", Body: json.RawMessage("1"), Traceparent: trace}
	if _, err := c.PushBatch(t.Context(), []Push{push}); err != nil {
		t.Error(err)
	}
	if want := []string{"", trace, trace, "", "", "", trace}; !slices.Equal(sent, want) {
		t.Errorf("sent %q", sent)
	}
}
