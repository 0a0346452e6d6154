package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// SearchReport is what is known about an id so far.
type SearchReport struct {
	Stored []StoredJob    `json:"stored"` // what the shards have
	Hosts  []SearchedHost `json:"hosts"`  // whose journals are searched
	Jobs   []JournaledJob `json:"jobs"`   // what the journals know, newest first
	Cut    bool           `json:"cut,omitempty"`
	Done   bool           `json:"done"`
}

// StoredJob is a job that a shard has; Client.Get returns it.
type StoredJob struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
	State string `json:"state"`
}

// SearchedHost is the progress of the search in a host's journal.
type SearchedHost struct {
	Name  string     `json:"name"`
	Read  int64      `json:"read"`  // bytes
	Total int64      `json:"total"` // bytes
	Day   *time.Time `json:"day,omitempty"`
	Done  bool       `json:"done"`
	Error string     `json:"error,omitempty"` // why its journal was not searched, or not all of it
}

// JournaledJob is all that the journals know about a job.
type JournaledJob struct {
	Topic     string    `json:"topic"`
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	// Ended is done, dead, expired, delete, drop, clear or cancel; empty: it has not, as far as is known.
	Ended  string  `json:"ended,omitempty"`
	Events []Event `json:"events"` // oldest first
}

// Event is what happened to a job.
type Event struct {
	At          time.Time  `json:"at"`
	Host        string     `json:"host"`
	What        string     `json:"what"` // push, replace, change, delete, …, or the outcome of an attempt
	By          string     `json:"by,omitempty"`
	Via         string     `json:"via,omitempty"`
	DueAt       *time.Time `json:"due_at,omitempty"`
	Attempt     bool       `json:"attempt,omitempty"`
	N           int        `json:"n,omitempty"` // of an attempt
	StartedAt   *time.Time `json:"started_at,omitempty"`
	TookMS      float64    `json:"took_ms,omitempty"`
	Status      int        `json:"status,omitempty"`
	Error       string     `json:"error,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	Result      string     `json:"result,omitempty"`
	ContentType string     `json:"content_type,omitempty"`
	Body        []byte     `json:"body_base64,omitempty"`
}

// Search finds what is known about an id, in the shards and in the journals of all hosts; topic "" means all. It calls
// tell, unless nil, with what is known so far. It may take minutes, and ends with ctx.
func (c *Client) Search(ctx context.Context, topic, id string, tell func(*SearchReport)) (*SearchReport, error) {
	req, err := c.newRequest(ctx, request{
		method: http.MethodGet, path: "/v1/search", query: queryOf(map[string]string{"id": id, "topic": topic}),
	})
	if err != nil {
		return nil, err
	}
	patient := *c.http
	patient.Timeout = 0
	resp, err := patient.Do(req)
	if err != nil {
		return nil, c.transportError(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
		return nil, newError(resp, answer)
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, cmp.Or(ctx.Err(), fmt.Errorf("the search was cut off: %w", noEOF(err)))
		}
		var r SearchReport
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("the search answered with an unexpected line: %w", err)
		}
		if r.Done {
			return &r, nil
		}
		if tell != nil {
			tell(&r)
		}
	}
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
