package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/pulltest"
)

// newTestParts has an open queue and an open registry.
func newTestParts(t *testing.T) (*parts, *pulltest.Queue) {
	t.Helper()
	q := pulltest.Start(t)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg := conf.Default()
	cfg.DataDir = t.TempDir()
	p := &parts{cfg: cfg, log: log, metrics: prometheus.NewRegistry(), registry: q.Registry, queue: q.Queue,
		pull: q.Hub}
	return p, q
}

// TestJobsOfUnknownTopicsAreFound, unless the topic was deleted or the jobs have finished.
func TestJobsOfUnknownTopicsAreFound(t *testing.T) {
	p, q := newTestParts(t)
	ctx := t.Context()
	push := func(topic, id string) {
		t.Helper()
		if r := q.Push(ctx, store.Push{Topic: topic, ID: id, Body: []byte("1"), Delay: time.Hour}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, name := range []string{"known", "deleted"} {
		x := registry.NewTopic(name)
		x.CallbackURL, x.Owner = "http://127.0.0.1/", "li"
		if _, err := q.Registry.PutTopic(ctx, "test", x); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Registry.DeleteTopic(ctx, "test", "deleted", false); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"known", "deleted", "unknown", "unknown", "empty"} {
		push(topic, fmt.Sprint(topic, time.Now().UnixNano()))
	}
	if _, err := q.DropTopic(ctx, "empty"); err != nil {
		t.Fatal(err)
	}
	if got, err := p.unknownTopics(ctx); err != nil || fmt.Sprint(got) != "map[unknown:2]" {
		t.Errorf("unknown: %v %v", got, err)
	}
	if a, b := p.ownerOf("known"), p.ownerOf("unknown"); a != "li" || b != "" {
		t.Errorf("the owners are %q and %q", a, b)
	}
}

// TestCommandLinesOfTheAdminReachAServerWithTLS, because their URLs begin with https.
func TestCommandLinesOfTheAdminReachAServerWithTLS(t *testing.T) {
	p, _ := newTestParts(t)
	p.cfg.Server.TLSCert = "cert.pem"
	caller, err := p.newCaller()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.adminOptions(caller).APIURL; !strings.HasPrefix(got, "https://") {
		t.Errorf("the API is at %s", got)
	}
}

// TestADurabilityThatNoShardKeepsIsRefused when a topic gets it, but not when another field is edited while a replica
// is down. For a file of topics it is checked once.
func TestADurabilityThatNoShardKeepsIsRefused(t *testing.T) {
	p, q := newTestParts(t)
	ctx := t.Context()
	asked, away := 0, error(nil)
	edited := &editedRegistry{q.Registry, p.cfg, func(_ context.Context, d store.Durability) error {
		if asked++; d == store.Replica {
			return away
		}
		return nil
	}}
	topic := func(name string, d registry.Durability) registry.Topic {
		x := registry.NewTopic(name)
		x.CallbackURL, x.Durability = "http://127.0.0.1/", d
		return x
	}
	if _, err := edited.PutTopic(ctx, "me", topic("safe", registry.DurabilityReplica)); err != nil {
		t.Fatal(err)
	}
	away = errors.Join(errors.New("shard a has no replica"), errors.New("shard b has none"))
	var field *registry.FieldError
	_, err := edited.PutTopic(ctx, "me", topic("new", registry.DurabilityReplica))
	if !errors.As(err, &field) || field.Field != "durability" || !field.OutOfRange ||
		!strings.Contains(field.Detail(), "shard a has no replica; shard b has none") {
		t.Errorf("a new topic: %v", err)
	}
	safe := topic("safe", registry.DurabilityReplica)
	safe.Title = "edited"
	if created, err := edited.PutTopic(ctx, "me", safe); err != nil || created {
		t.Errorf("an edit of another field: created %t, %v", created, err)
	}
	away, asked = nil, 0
	list := []registry.Topic{
		topic("x", registry.DurabilityReplica), topic("y", registry.DurabilityReplica),
		topic("z", registry.DurabilityMemory),
	}
	if done, err := edited.PutTopics(ctx, "me", list); err != nil || len(done) != 3 || asked != 2 {
		t.Errorf("a file of topics: %v %v, checked %d times", done, err, asked)
	}
	for name, want := range map[string]store.Durability{
		"safe": store.Replica, "z": store.Memory, "unknown": store.Memory,
	} {
		if got := p.durability(name); got != want {
			t.Errorf("the durability of %s is %v", name, got)
		}
	}
	if err := edited.PutShard(ctx, "me", registry.Shard{Name: "Bad", State: "asleep"}); err == nil {
		t.Error("an invalid shard is registered")
	}
}

func TestAProcessOfGatewaysNeedsAListener(t *testing.T) {
	p, _ := newTestParts(t)
	if _, err := p.newGateway(map[string]net.Listener{}, nil); !errors.Is(err, errNoGateway) {
		t.Errorf("%v", err)
	}
	cfg := conf.Default()
	if list := gatewayListeners(cfg); len(list) != 0 {
		t.Errorf("by default %v are served", list)
	}
	cfg, err := conf.Load(conf.LoadOptions{Gateways: GatewayKeys(),
		Flags:  map[string]string{"gateways.grape.addr": "127.0.0.1:1", "gateways.phpdq.addr": "127.0.0.1:2"},
		Search: []string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	list := gatewayListeners(cfg)
	if len(list) != 2 || list[0].Key != "gateways.phpdq.addr" || list[1].Addr != "127.0.0.1:1" {
		t.Errorf("then %v", list)
	}
}

// TestMessagesAreInTheLanguageOfTheirReader; for an unknown language they are in English.
func TestMessagesAreInTheLanguageOfTheirReader(t *testing.T) {
	say, err := sayings()
	if err != nil {
		t.Fatal(err)
	}
	const key = "nav.alerts"
	english, chinese, other := say("en")(key), say("zh-Hans")(key), say("tlh")(key)
	if english == chinese || english != other || english == "" || strings.Contains(english, key) {
		t.Errorf("%q, %q and %q", english, chinese, other)
	}
}

func TestARestartSaysWhatWasLost(t *testing.T) {
	if text := restartText(&reconcile.Report{Pushed: 3}, nil).Error(); !strings.Contains(text, "pushed again: 3") {
		t.Error(text)
	}
	text := restartText(&reconcile.Report{}, errors.New("no\nspace")).Error()
	if !strings.Contains(text, "could not be replayed") || strings.Contains(text, "\n") {
		t.Error(text)
	}
}
