package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// fakeTasks stores tasks and runs none.
type fakeTasks struct {
	list []bulk.Task
	fail error
}

func (f *fakeTasks) Start(_ context.Context, actor string, p bulk.Params) (uint64, error) {
	if f.fail != nil {
		return 0, f.fail
	}
	id := uint64(len(f.list) + 1)
	f.list = append(f.list, bulk.Task{ID: id, Kind: p.Do, Params: p, State: bulk.Queued, Actor: actor})
	return id, nil
}

func (f *fakeTasks) GetTask(_ context.Context, id uint64) (*bulk.Task, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	if id == 0 || id > uint64(len(f.list)) {
		return nil, bulk.ErrNoTask
	}
	t := f.list[id-1]
	return &t, nil
}

func (f *fakeTasks) ListTasks(context.Context, int) (list []bulk.Task, err error) { return f.list, nil }

func (f *fakeTasks) CancelTask(_ context.Context, _ string, id uint64) error {
	f.list[id-1].CancelRequested = true
	return nil
}

func TestTasksAreStartedAsTheyWereAskedFor(t *testing.T) {
	a := newAPI(t)
	at := time.Date(2026, 12, 2, 3, 4, 5, 0, time.UTC)
	for ask, want := range map[string]bulk.Params{
		`{"action":"retry","filter":{"topic":"shop.orders","error":"timeout","status":503,` +
			`"until":"2026-12-02T03:04:05Z"},"rate":2.5,"stop_above":0.2}`: {
			Filter: bulk.Filter{Topic: "shop.orders", State: store.Dead, Error: "timeout", Status: 503, Until: at},
			Action: bulk.Action{Do: bulk.Retry}, Rate: 2.5, Staged: true, StopAbove: 0.2,
		},
		`{"action":"run","filter":{"topic":"sh*","id_prefix":"a","due_before":"2026-12-02T03:04:05Z"},` +
			`"dry_run":true}`: {
			Filter: bulk.Filter{Topic: "sh*", State: store.Delayed, ID: "^a", Until: at},
			Action: bulk.Action{Do: bulk.Run},
			DryRun: true,
		},
		`{"action":"delete","filter":{"topic":"shop.orders","state":"ready"}}`: {
			Filter: bulk.Filter{Topic: "shop.orders", State: store.Ready}, Action: bulk.Action{Do: bulk.Delete},
		},
		`{"action":"shift","by":"-30m","filter":{"topic":"*","state":"delayed"}}`: {
			Filter: bulk.Filter{Topic: "*", State: store.Delayed},
			Action: bulk.Action{Do: bulk.Due, Shift: -30 * time.Minute},
		},
		`{"action":"change","change":{"priority":"low","due_at":"2026-12-02T03:04:05Z"},` +
			`"filter":{"topic":"shop.orders","state":"delayed"}}`: {
			Filter: bulk.Filter{Topic: "shop.orders", State: store.Delayed},
			Action: bulk.Action{Do: bulk.Due, At: at, Priority: "low"},
		},
	} {
		r := a.do("POST", "/v1/tasks", ask, "Idempotency-Key", "k").want(201)
		want.Key = "0:k"
		got := a.tasks.list[len(a.tasks.list)-1]
		if diff := differs(got.Params, want); diff || got.Actor != "token:all" {
			t.Errorf("%s: %+v of %s", ask, got.Params, got.Actor)
		}
		view := a.do("GET", r.header.Get("Location"), "").want(200).json()
		for _, field := range []string{"action", "by", "dry_run", "rate", "stop_above"} {
			value, given := view[field]
			if given != strings.Contains(ask, `"`+field+`"`) {
				t.Errorf("%s: %s is %v", ask, field, value)
			}
		}
	}
}

func differs(a, b bulk.Params) bool {
	a.Stages, b.Stages = nil, nil
	return a.Filter != b.Filter || a.Action != b.Action || a.Key != b.Key || a.DryRun != b.DryRun || a.Rate != b.Rate ||
		a.Staged != b.Staged || a.StopAbove != b.StopAbove
}

func TestATaskThatIsNotClearIsRefused(t *testing.T) {
	a := newAPI(t)
	const filter = `"filter":{"topic":"shop.orders","state":"delayed"}`
	for ask, field := range map[string]string{
		`{"action":"drop",` + filter + `}`:                                                        "action",
		`{"action":"run"}`:                                                                        "filter.topic",
		`{"action":"run","filter":{"topic":"a**"}}`:                                               "filter.topic",
		`{"action":"delete","filter":{"topic":"shop.orders"}}`:                                    "filter.state",
		`{"action":"shift",` + filter + `}`:                                                       "by",
		`{"action":"shift","by":"1h",` + filter + `}`:                                             "Idempotency-Key",
		`{"action":"run","by":"1h",` + filter + `}`:                                               "by",
		`{"action":"change",` + filter + `}`:                                                      "change",
		`{"action":"run","change":{"priority":"low"},` + filter + `}`:                             "change",
		`{"action":"run","stop_above":0.5,` + filter + `}`:                                        "stop_above",
		`{"action":"retry","filter":{"topic":"shop.orders","due_before":"2026-12-02T03:04:05Z"}}`: "filter.due_before",
		`{"action":"run","filter":{"topic":"shop.orders","since":"2026-12-02T03:04:05Z"}}`:        "filter.since",
		`{"action":"run","filter":{"topic":"shop.orders","prefix":"a"}}`:                          "filter",
		`{"action":"delete","filter":{"topic":"shop.orders","state":"delayed","error":""}}`:       "error",
		`{"action":"run","filter":{"topic":"shop.orders","id_prefix":""}}`:                        "id_prefix",
	} {
		a.do("POST", "/v1/tasks", ask).problem(400, field)
	}
	for _, ask := range []string{`"rate":0`, `"rate":-1`, `"rate":1e6`} {
		a.do("POST", "/v1/tasks", `{"action":"run",`+ask+`,`+filter+`}`).problem(422, "rate")
	}
	a.do("POST", "/v1/tasks", `{"action":"retry","stop_above":1,"filter":{"topic":"shop.orders"}}`).
		problem(422, "stop_above")
	a.do("POST", "/v1/tasks", `{"action":"retry","filter":{"topic":"none"}}`).want(404).code("topic_not_found")
	for code, want := range map[string]string{"task.overlaps": "task_overlaps", "task.too_many": "task_limit"} {
		a.tasks.fail = message.New(code, 7)
		a.do("POST", "/v1/tasks", `{"action":"retry","filter":{"topic":"shop.orders"}}`).want(409).code(want)
	}
	a.tasks.fail = message.New("task.key_used", 7)
	a.do("POST", "/v1/tasks", `{"action":"retry","filter":{"topic":"shop.orders"}}`, "Idempotency-Key", "k").
		problem(422, "Idempotency-Key")
	a.tasks.fail = errors.New("no database")
	a.do("POST", "/v1/tasks", `{"action":"retry","filter":{"topic":"shop.orders"}}`).want(500)
	if len(a.tasks.list) > 0 {
		t.Errorf("%+v", a.tasks.list)
	}
}

func TestATokenSeesTheTasksOfItsTopicsOnly(t *testing.T) {
	a := newAPI(t)
	for _, topic := range []string{"shop.mail", "shop.*", "*", "", "shop"} {
		a.tasks.list = append(a.tasks.list, bulk.Task{
			ID: uint64(len(a.tasks.list) + 1), State: bulk.Running, Kind: bulk.Retry,
			Params: bulk.Params{Filter: bulk.Filter{Topic: topic, State: store.Dead},
				Action: bulk.Action{Do: bulk.Retry}},
		})
	}
	all := a.token
	a.token = a.registry.grant("shop", "shop.*", registry.RightRead, registry.RightManage)
	if list := a.do("GET", "/v1/tasks", "").want(200).json()["tasks"].([]any); len(list) != 2 {
		t.Errorf("the token sees %v", list)
	}
	a.do("GET", "/v1/tasks/2", "").want(200)
	for _, id := range []string{"3", "4", "5", "6", "0", "x"} {
		for _, method := range []string{"GET", "DELETE"} {
			a.do(method, "/v1/tasks/"+id, "").want(404).code("task_not_found")
		}
	}
	a.do("DELETE", "/v1/tasks/1", "").want(202)
	a.tasks.list[0].State = bulk.Cancelled
	a.do("DELETE", "/v1/tasks/1", "").want(200)
	for topic, want := range map[string]int{"shop.mail": 201, "shop.*": 201, "sho*": 403, "*": 403, "shop": 403} {
		a.do("POST", "/v1/tasks", `{"action":"retry","filter":{"topic":"`+topic+`"}}`).want(want)
	}
	for _, rights := range [][]registry.Right{
		{registry.RightManage}, {registry.RightRead}, {registry.RightPush, registry.RightConsume},
	} {
		a.token = a.registry.grant("some", "*", rights...)
		a.do("POST", "/v1/tasks", `{"action":"retry","filter":{"topic":"shop.mail"}}`).want(403)
		if r := a.do("GET", "/v1/tasks/1", ""); r.status != 403 && r.status != 404 {
			t.Errorf("with %v: %d", rights, r.status)
		}
	}
	a.token = all
	if list := a.do("GET", "/v1/tasks?limit=3", "").want(200).json()["tasks"].([]any); len(list) != 3 {
		t.Errorf("three of all: %v", list)
	}
}

func TestATaskIsNotReadWithoutTheDatabase(t *testing.T) {
	a := newAPI(t)
	a.tasks.fail = registry.ErrUnavailable
	for _, method := range []string{"GET", "DELETE"} {
		a.do(method, "/v1/tasks/1", "").want(503)
	}
}
