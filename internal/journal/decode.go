package journal

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json"
)

func readRequest(line []byte) (RequestLine, error) {
	var w requestWire
	ts, err := decodeLine(line, &w, &w.TS)
	if err != nil {
		return RequestLine{}, err
	}
	l := RequestLine{
		TS: ts, Op: w.Op, Topic: w.Topic, ID: w.ID, Shard: w.Shard, Revision: w.Revision, DueAt: timeOf(w.DueAt),
		CreatedAt: timeOf(w.CreatedAt), ChangedAt: timeOf(w.ChangedAt), Priority: w.Priority, Order: w.Order,
		TTR: durationOf(w.TTR, time.Second), MaxAttempts: w.MaxAttempts, ContentType: w.ContentType,
		ExpiresAt: timeOf(w.ExpiresAt), TTL: durationOf(w.TTL, time.Second), Headers: w.Headers.texts(),
		Group: w.Group, Key: w.Key, Traceparent: w.Traceparent, URL: w.URL, Quota: w.Quota, Topics: w.Topics,
		Bucket:   w.Bucket,
		Schedule: w.Schedule, For: timeOf(w.For), Definition: w.Definition, Last: w.Last, LeftOut: w.LeftOut,
		Awaited: w.Awaited, Body: w.Body64, Via: w.Via, By: w.By, Delay: durationOf(w.Delay, time.Second),
		NextAt: timeOf(w.NextAt), Attempts: w.Attempts, Snoozes: w.Snoozes, History: w.History,
		DeadAt: timeOf(w.DeadAt), DeadReason: w.DeadReason,
	}
	for _, seconds := range w.Retry {
		l.Retry = append(l.Retry, durationOf(seconds, time.Second))
	}
	if w.Body != nil {
		l.Body = []byte(*w.Body)
	}
	return l, nil
}

func readAttempt(line []byte) (AttemptLine, error) {
	var w attemptWire
	ts, err := decodeLine(line, &w, &w.TS)
	return AttemptLine{
		TS: ts, Topic: w.Topic, ID: w.ID, CreatedAt: timeOf(w.CreatedAt), N: w.N, StartedAt: timeOf(w.StartedAt),
		Took: durationOf(w.TookMS, time.Millisecond), Status: w.Status, Outcome: w.Outcome, Reason: w.Reason,
		Error: w.Error, Shard: w.Shard, Revision: w.Revision, Process: w.Process, Result: w.Result,
		Schedule: w.Schedule, For: timeOf(w.For), Answer: w.Answer,
	}, err
}

// decodeLine decodes a line, and its time once that is in ts.
func decodeLine(line []byte, wire any, ts *string) (time.Time, error) {
	if err := json.Unmarshal(line, wire, lenient); err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, *ts)
	if err != nil {
		return at, fmt.Errorf("read the ts of a line: %w", err)
	}
	return at, nil
}

// isWhole reports whether a line is as it was written.
func isWhole(line []byte) bool {
	end := len(line) - checksumSize
	if end < 0 || !bytes.HasPrefix(line, []byte(lineStart)) {
		return false
	}
	var want [checksumSize]byte
	return bytes.Equal(line[end:], appendChecksum(want[:0], line[:end]))
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// durationOf rounds to nanoseconds, which removes the error of decimal fractions.
func durationOf(f float64, unit time.Duration) time.Duration {
	return time.Duration(math.Round(f * float64(unit)))
}

func (p pairs) texts() map[string]string {
	if len(p) == 0 {
		return nil
	}
	texts := make(map[string]string, len(p))
	for _, pair := range p {
		texts[pair[0]] = pair[1]
	}
	return texts
}
