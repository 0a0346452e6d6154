package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
)

// recorder is a transaction that records the last statement.
type recorder struct {
	query string
	args  []any
	err   error
}

func (r *recorder) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	r.query, r.args = query, args
	return nil, r.err
}

func (r *recorder) String() string {
	return strings.TrimSpace(fmt.Sprintln(append([]any{r.query}, r.args...)...))
}

var (
	table = Table{Dialect: SQLite}
	body  = json.RawMessage(`{"order":42}`)
	due   = time.UnixMilli(1795687200000)
)

// TestRows: what the methods insert.
func TestRows(t *testing.T) {
	ctx, tx := t.Context(), &recorder{}
	whole := client.Push{
		Topic: "order.close", ID: "order-42", Body: body, Delay: client.After(1500 * time.Microsecond),
		Priority: client.High, TTR: time.Minute, MaxAttempts: 3, OnDuplicate: client.Replace, TTL: time.Hour,
		Headers: map[string]string{"X": "1"}, Retry: []time.Duration{time.Second}, Group: "42",
	}
	exact := client.Push{
		Topic: "order.close", Body: body, DueAt: due.Add(time.Nanosecond), ExpiresAt: due.Add(time.Hour),
	}
	job := Job{Topic: "order.close", ID: "order-42", Group: "42"}
	for _, tt := range []struct {
		do   func() error
		want string
	}{
		{
			func() error { return table.Push(ctx, tx, whole) },
			`INSERT INTO wakecall_outbox (op, topic, job_id, body, priority, group_name, options, delay_ms)` +
				` VALUES (?, ?, ?, ?, ?, ?, ?, ?) push order.close order-42 {"order":42} high 42 ` +
				`{"ttr":"1m0s","max_attempts":3,"on_duplicate":"replace","ttl":"1h0m0s","headers":{"X":"1"},` +
				`"retry":["1s"]} 2`,
		},
		{
			func() error { return Table{Dialect: PostgreSQL, Name: "shop.timers"}.Push(ctx, tx, exact) },
			`INSERT INTO shop.timers (op, topic, body, options, due_at) VALUES ($1, $2, $3, $4, $5)` +
				` push order.close {"order":42} {"expires_at":1795690800000} 1795687200001`,
		},
		{
			func() error { return table.Change(ctx, tx, job, client.Change{DueAt: &due}) },
			`INSERT INTO wakecall_outbox (op, topic, job_id, group_name, due_at) VALUES (?, ?, ?, ?, ?)` +
				` change order.close order-42 42 1795687200000`,
		},
		{
			func() error {
				ch := client.Change{Delay: client.After(0), Body: body, Priority: client.Low}
				return table.Change(ctx, tx, job, ch)
			},
			`INSERT INTO wakecall_outbox (op, topic, job_id, body, priority, group_name, delay_ms)` +
				` VALUES (?, ?, ?, ?, ?, ?, ?) change order.close order-42 {"order":42} low 42 0`,
		},
		{
			func() error { return table.Delete(ctx, tx, Job{Topic: "order.close", ID: "order-42"}) },
			`INSERT INTO wakecall_outbox (op, topic, job_id) VALUES (?, ?, ?) delete order.close order-42`,
		},
		{
			func() error { return table.CancelGroup(ctx, tx, "42", 0) },
			`INSERT INTO wakecall_outbox (op, group_name) VALUES (?, ?) cancel_group 42`,
		},
		{
			func() error { return Table{Dialect: MySQL}.CancelGroup(ctx, tx, "42", time.Hour) },
			`INSERT INTO wakecall_outbox (op, group_name, options) VALUES (?, ?, ?) cancel_group 42 {"close":"1h0m0s"}`,
		},
	} {
		if err := tt.do(); err != nil || tx.String() != tt.want {
			t.Errorf("%v, inserts\n%s, want\n%s", err, tx.String(), tt.want)
		}
	}
}

// TestEveryFieldIsCarriedOrRefused: none is dropped.
func TestEveryFieldIsCarriedOrRefused(t *testing.T) {
	job := Job{Topic: "order.close", ID: "order-42"}
	push := client.Push{Topic: job.Topic, Body: body}
	everyField(t, push, func(tx Tx, p client.Push) error { return table.Push(t.Context(), tx, p) })
	change := client.Change{Priority: client.Low}
	everyField(t, change, func(tx Tx, ch client.Change) error { return table.Change(t.Context(), tx, job, ch) })
}

func everyField[T any](t *testing.T, plain T, insert func(Tx, T) error) {
	t.Helper()
	tx := &recorder{}
	if err := insert(tx, plain); err != nil {
		t.Fatal(err)
	}
	before := tx.String()
	text, delay := "https://pay.shop.example/", time.Minute
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		whole := plain
		v := reflect.ValueOf(&whole).Elem().FieldByIndex(field.Index)
		if !v.IsZero() {
			continue
		}
		switch v.Interface().(type) {
		case string:
			v.SetString(client.High) // any text, and a priority
		case *string:
			v.Set(reflect.ValueOf(&text))
		case bool:
			v.SetBool(true)
		case int, time.Duration:
			v.SetInt(1e9)
		case *time.Duration:
			v.Set(reflect.ValueOf(&delay))
		case time.Time:
			v.Set(reflect.ValueOf(due))
		case *time.Time:
			v.Set(reflect.ValueOf(&due))
		case json.RawMessage:
			v.SetBytes(body)
		case map[string]string:
			v.Set(reflect.ValueOf(map[string]string{"X": "1"}))
		case []time.Duration:
			v.Set(reflect.ValueOf([]time.Duration{time.Second}))
		default:
			t.Fatalf("%s has a type that this test does not know", field.Name)
		}
		if err := insert(tx, whole); err == nil && tx.String() == before {
			t.Errorf("%s is dropped", field.Name)
		}
	}
}

// TestErrors: what Wakecall would refuse is not inserted.
func TestErrors(t *testing.T) {
	ctx := t.Context()
	push := func(edit func(*client.Push)) func(Tx) error {
		p := client.Push{Topic: "order.close", ID: "order-42", Body: body}
		edit(&p)
		return func(tx Tx) error { return table.Push(ctx, tx, p) }
	}
	change := func(job Job, ch client.Change) func(Tx) error {
		return func(tx Tx) error { return table.Change(ctx, tx, job, ch) }
	}
	remove := func(job Job) func(Tx) error {
		return func(tx Tx) error { return table.Delete(ctx, tx, job) }
	}
	cancel := func(table Table, group string, closeFor time.Duration) func(Tx) error {
		return func(tx Tx) error { return table.CancelGroup(ctx, tx, group, closeFor) }
	}
	job := Job{Topic: "order.close", ID: "order-42"}
	both := func(p *client.Push) { p.Delay, p.DueAt = client.After(0), due }
	for want, do := range map[string]func(Tx) error{
		`outbox: push: topic "Order" must match`:        push(func(p *client.Push) { p.Topic = "Order" }),
		`outbox: push: body must be JSON`:               push(func(p *client.Push) { p.Body = nil }),
		`outbox: push: body must be UTF-8`:              push(func(p *client.Push) { p.Body = []byte("\"\xff\"") }),
		`id has 129 bytes; the limit is 128`:            push(func(p *client.Push) { p.ID = strings.Repeat("x", 129) }),
		`id must not begin or end with a space`:         push(func(p *client.Push) { p.ID = " x" }),
		`id "a\nb" must be printable UTF-8`:             push(func(p *client.Push) { p.ID = "a\nb" }),
		`group "\xff" must be printable UTF-8`:          push(func(p *client.Push) { p.Group = "\xff" }),
		`priority must be high, normal or low`:          push(func(p *client.Push) { p.Priority = "urgent" }),
		`on_duplicate must be keep or replace`:          push(func(p *client.Push) { p.OnDuplicate = client.Refuse }),
		`delay and due_at exclude each other`:           push(both),
		`delay must not be negative`:                    push(func(p *client.Push) { p.Delay = client.After(-1) }),
		`due_at must not be before 2000`:                push(func(p *client.Push) { p.DueAt = time.Unix(1795687, 0) }),
		`ttl and expires_at exclude each other`:         push(func(p *client.Push) { p.TTL, p.ExpiresAt = 1, due }),
		`must not be negative`:                          push(func(p *client.Push) { p.MaxAttempts = -1 }),
		`outbox: change: nothing to change`:             change(job, client.Change{}),
		`a change through the outbox cannot depend on`:  change(job, client.Change{ETag: "x", DueAt: &due}),
		`outbox: change: id is required`:                change(Job{Topic: "order.close"}, client.Change{DueAt: &due}),
		`outbox: delete: topic "" must match`:           remove(Job{ID: "order-42"}),
		`outbox: cancel_group: group is required`:       cancel(table, "", 0),
		`outbox: cancel_group: close must be 1s to 30 `: cancel(table, "42", time.Millisecond),
		`dialect must be mysql, postgres or sqlite`:     cancel(Table{}, "42", 0),
		`table name "a b" must have letters, digits`:    cancel(Table{Dialect: MySQL, Name: "a b"}, "42", 0),
	} {
		tx := &recorder{}
		if err := do(tx); err == nil || !strings.Contains(err.Error(), want) || tx.query != "" {
			t.Errorf("%v, want %s; inserted %s", err, want, tx)
		}
	}
	broken := errors.New("broken")
	err := table.Delete(ctx, &recorder{err: broken}, job)
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "outbox: delete: insert into wakecall_outbox") {
		t.Error(err)
	}
}
