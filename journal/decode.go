package journal

import (
	"encoding/json"
	"errors"
	"math"
	"time"
)

// The wire structs are what encode.go writes. A text that is not UTF-8 has its _b64 twin instead.
type wireRequest struct {
	TS          time.Time `json:"ts"`
	Op          Op        `json:"op"`
	Topic       string    `json:"topic"`
	TopicRaw    []byte    `json:"topic_b64"`
	ID          string    `json:"id"`
	IDRaw       []byte    `json:"id_b64"`
	Shard       string    `json:"shard"`
	ShardRaw    []byte    `json:"shard_b64"`
	DueAt       *int64    `json:"due_at"`
	CreatedAt   *int64    `json:"created_at"`
	ChangedAt   *int64    `json:"changed_at"`
	Priority    string    `json:"priority"`
	TTR         float64   `json:"ttr"`
	MaxAttempts int       `json:"max_attempts"`
	Type        string    `json:"content_type"`
	TypeRaw     []byte    `json:"content_type_b64"`
	Count       int       `json:"count"`
	OnDuplicate string    `json:"on_duplicate"`
	Delay       float64   `json:"delay"`
	Body        *string   `json:"body"`
	BodyRaw     []byte    `json:"body_b64"`
}

type wireAttempt struct {
	TS         time.Time `json:"ts"`
	Topic      string    `json:"topic"`
	TopicRaw   []byte    `json:"topic_b64"`
	ID         string    `json:"id"`
	IDRaw      []byte    `json:"id_b64"`
	CreatedAt  *int64    `json:"created_at"`
	N          int       `json:"n"`
	StartedAt  *int64    `json:"started_at"`
	TookMS     float64   `json:"took_ms"`
	Status     int       `json:"status"`
	Outcome    Outcome   `json:"outcome"`
	Reason     string    `json:"reason"`
	ReasonRaw  []byte    `json:"reason_b64"`
	Error      string    `json:"error"`
	ErrorRaw   []byte    `json:"error_b64"`
	Shard      string    `json:"shard"`
	ShardRaw   []byte    `json:"shard_b64"`
	Process    string    `json:"process"`
	ProcessRaw []byte    `json:"process_b64"`
}

type wireError struct {
	TS         time.Time `json:"ts"`
	Process    string    `json:"process"`
	ProcessRaw []byte    `json:"process_b64"`
	Where      string    `json:"where"`
	WhereRaw   []byte    `json:"where_b64"`
	Error      string    `json:"error"`
	ErrorRaw   []byte    `json:"error_b64"`
	Context    string    `json:"context"`
	ContextRaw []byte    `json:"context_b64"`
}

var errNoTime = errors.New("the line has no ts")

// UnmarshalJSON reads a line of a request file.
func (l *RequestLine) UnmarshalJSON(data []byte) error {
	var w wireRequest
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	if w.TS.IsZero() {
		return errNoTime
	}
	*l = RequestLine{
		TS: w.TS, Op: w.Op, Topic: rawOr(w.TopicRaw, w.Topic), ID: rawOr(w.IDRaw, w.ID), Shard: rawOr(w.ShardRaw, w.Shard),
		DueAt: instant(w.DueAt), CreatedAt: instant(w.CreatedAt), ChangedAt: instant(w.ChangedAt), Priority: w.Priority, TTR: toDuration(w.TTR, time.Second),
		MaxAttempts: w.MaxAttempts, ContentType: rawOr(w.TypeRaw, w.Type), Body: w.BodyRaw, Count: w.Count,
		OnDuplicate: w.OnDuplicate, Delay: toDuration(w.Delay, time.Second),
	}
	if w.Body != nil {
		l.Body = []byte(*w.Body)
	}
	return nil
}

// UnmarshalJSON reads a line of a notify file.
func (l *AttemptLine) UnmarshalJSON(data []byte) error {
	var w wireAttempt
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	if w.TS.IsZero() {
		return errNoTime
	}
	*l = AttemptLine{
		TS: w.TS, Topic: rawOr(w.TopicRaw, w.Topic), ID: rawOr(w.IDRaw, w.ID), CreatedAt: instant(w.CreatedAt), N: w.N, StartedAt: instant(w.StartedAt),
		Took: toDuration(w.TookMS, time.Millisecond), Status: w.Status, Outcome: w.Outcome, Reason: rawOr(w.ReasonRaw, w.Reason),
		Error: rawOr(w.ErrorRaw, w.Error), Shard: rawOr(w.ShardRaw, w.Shard), Process: rawOr(w.ProcessRaw, w.Process),
	}
	return nil
}

// UnmarshalJSON reads a line of an error file.
func (l *ErrorLine) UnmarshalJSON(data []byte) error {
	var w wireError
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	if w.TS.IsZero() {
		return errNoTime
	}
	*l = ErrorLine{
		TS: w.TS, Process: rawOr(w.ProcessRaw, w.Process), Where: rawOr(w.WhereRaw, w.Where),
		Error: rawOr(w.ErrorRaw, w.Error), Context: rawOr(w.ContextRaw, w.Context),
	}
	return nil
}

func rawOr(raw []byte, s string) string {
	if raw != nil {
		return string(raw)
	}
	return s
}

func instant(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}

// toDuration rounds to nanoseconds, which undoes the detour through decimal fractions.
func toDuration(f float64, unit time.Duration) time.Duration {
	return time.Duration(math.Round(f * float64(unit)))
}
