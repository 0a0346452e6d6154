package server_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/openapitest"
)

// fakeJobs is a queue in memory. It records its calls.
type fakeJobs struct {
	mu      sync.Mutex
	jobs    map[string]*queue.Job
	done    []string // every call that could change jobs
	fail    error    // error of every call, if set
	failID  string   // only for this id, if set
	last    queue.Push
	change  queue.Change
	hold    chan struct{} // pushes wait for it, if set
	holding chan struct{} // ticks when a push waits, and when one is canceled
}

func newFakeJobs() *fakeJobs { return &fakeJobs{jobs: map[string]*queue.Job{}} }

func (f *fakeJobs) did(format string, args ...any) {
	f.done = append(f.done, fmt.Sprintf(format, args...))
}

func (f *fakeJobs) changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.done)
}

func (f *fakeJobs) broken(id string) error {
	if f.failID != "" && f.failID != id {
		return nil
	}
	return f.fail
}

func (f *fakeJobs) Push(ctx context.Context, p queue.Push) queue.Result {
	if f.hold != nil {
		f.holding <- struct{}{}
		select {
		case <-f.hold:
		case <-ctx.Done():
			f.holding <- struct{}{}
		}
	}
	return f.PushBatch(ctx, []queue.Push{p})[0]
}

func (f *fakeJobs) PushBatch(_ context.Context, pushes []queue.Push) []queue.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	results := make([]queue.Result, len(pushes))
	for i := range pushes {
		results[i] = f.push(pushes[i])
	}
	return results
}

func (f *fakeJobs) push(p queue.Push) queue.Result {
	if err := f.broken(p.ID); err != nil {
		return queue.Result{Err: err}
	}
	key := p.Topic + "/" + p.ID
	old := f.jobs[key]
	if old != nil && p.OnDuplicate == queue.Keep {
		return queue.Result{Job: *old, Duplicate: true}
	}
	if old != nil && p.OnDuplicate == queue.Refuse {
		return queue.Result{Job: *old, Err: fmt.Errorf("push: %w", queue.ErrDuplicate)}
	}
	p.Body = bytes.Clone(p.Body)
	f.last = p
	f.did("push %s", key)
	now := time.Now()
	due := p.DueAt
	if due.IsZero() {
		due = now.Add(p.Delay)
	}
	job := &queue.Job{
		Topic: p.Topic, ID: p.ID, State: queue.Delayed, Body: p.Body, ContentType: p.ContentType, Priority: p.Priority,
		TTR: p.TTR, MaxAttempts: p.MaxAttempts, CreatedAt: now, DueAt: due, NextAt: due,
	}
	if !due.After(now) {
		job.State, job.NextAt = queue.Ready, time.Time{}
	}
	f.jobs[key] = job
	return queue.Result{Job: *job, Duplicate: old != nil}
}

func (f *fakeJobs) find(topic, id string) (*queue.Job, error) {
	if err := f.broken(id); err != nil {
		return nil, err
	}
	job := f.jobs[topic+"/"+id]
	if job == nil {
		return nil, fmt.Errorf("%s/%s: %w", topic, id, queue.ErrNotFound)
	}
	job.ETag = cmp.Or(job.ETag, "e")
	return job, nil
}

func (f *fakeJobs) Get(ctx context.Context, topic, id string) (*queue.Job, error) {
	return f.Recall(ctx, topic, id)
}

func (f *fakeJobs) Recall(_ context.Context, topic, id string) (*queue.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.find(topic, id)
}

func (f *fakeJobs) Change(_ context.Context, topic, id string, c queue.Change) (*queue.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	job, err := f.find(topic, id)
	switch {
	case err != nil:
		return nil, err
	case job.State == queue.Running:
		return nil, fmt.Errorf("change: %w", queue.ErrRunning)
	case job.State == queue.Dead:
		return nil, fmt.Errorf("change: %w", queue.ErrDead)
	}
	if err := changed(job, c.Match); err != nil {
		return nil, err
	}
	f.did("change %s/%s", topic, id)
	job.ETag += "x"
	f.change = c
	if c.DueAt != nil {
		job.DueAt = *c.DueAt
	}
	if c.Delay != nil {
		job.DueAt = time.Now().Add(*c.Delay)
	}
	if c.Priority != nil {
		job.Priority = *c.Priority
	}
	if c.Body != nil {
		job.Body = bytes.Clone(*c.Body)
	}
	return job, nil
}

func changed(job *queue.Job, m queue.Match) error {
	if m != nil && !slices.Contains(m, job.ETag) {
		return fmt.Errorf("%s: %w", job.ID, queue.ErrChanged)
	}
	return nil
}

func (f *fakeJobs) DeleteIf(ctx context.Context, topic, id string, m queue.Match) error {
	if f.hold != nil {
		f.holding <- struct{}{}
		<-f.hold
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	job, err := f.find(topic, id)
	if err != nil {
		return err
	}
	if err := changed(job, m); err != nil {
		return err
	}
	f.did("delete %s/%s", topic, id)
	delete(f.jobs, topic+"/"+id)
	return nil
}

func (f *fakeJobs) RunIf(_ context.Context, topic, id string, m queue.Match) (*queue.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	job, err := f.find(topic, id)
	if err != nil {
		return nil, err
	}
	if err := changed(job, m); err != nil {
		return nil, err
	}
	f.did("run %s/%s", topic, id)
	job.State = queue.Ready
	return job, nil
}

func (f *fakeJobs) Resend(_ context.Context, topic, id string) (*queue.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	job, err := f.find(topic, id)
	switch {
	case err != nil:
		return nil, err
	case job.State != queue.Finished:
		return nil, fmt.Errorf("resend: %w", queue.ErrAlive)
	case job.BodyGone:
		return nil, fmt.Errorf("resend: %w", queue.ErrBodyGone)
	}
	f.did("resend %s/%s", topic, id)
	job.State = queue.Ready
	return job, nil
}

func (f *fakeJobs) ListFinished(
	_ context.Context, topic, prefix, _ string, _ int,
) ([]queue.Job, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	jobs := []queue.Job{}
	for _, j := range f.of(topic, queue.Finished) {
		if strings.HasPrefix(j.ID, prefix) {
			jobs = append(jobs, *j)
		}
	}
	return jobs, "", nil
}

func (f *fakeJobs) of(topic string, s queue.State) []*queue.Job {
	var list []*queue.Job
	for _, j := range f.jobs {
		if j.Topic == topic && j.State == s {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *queue.Job) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func (f *fakeJobs) List(
	_ context.Context, topic string, s queue.State, cursor string, limit int,
) (jobs []queue.Job, next string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, "", f.fail
	}
	if strings.HasPrefix(cursor, "bad") {
		return nil, "", fmt.Errorf("cursor: %w", queue.ErrCursor)
	}
	for _, j := range f.of(topic, s) {
		if j.ID <= cursor {
			continue
		}
		if len(jobs) == limit {
			return jobs, jobs[limit-1].ID, nil
		}
		jobs = append(jobs, *j)
	}
	return jobs, "", nil
}

func (f *fakeJobs) dead(op, topic string, ids []string, limit int, do func(*queue.Job)) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, j := range f.of(topic, queue.Dead) {
		if n < limit || slices.Contains(ids, j.ID) {
			f.did("%s %s/%s", op, topic, j.ID)
			do(j)
			n++
		}
	}
	return n, f.fail
}

func (f *fakeJobs) RedriveDead(_ context.Context, topic string, ids []string, limit int) (int, error) {
	return f.dead("redrive", topic, ids, limit, func(j *queue.Job) { j.State, j.Attempts = queue.Ready, 0 })
}

func (f *fakeJobs) DeleteDead(_ context.Context, topic string, ids []string, limit int) (int, error) {
	return f.dead("delete", topic, ids, limit, func(j *queue.Job) { delete(f.jobs, j.Topic+"/"+j.ID) })
}

func (f *fakeJobs) Stats(_ context.Context, topics []string) (map[string]queue.Stats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]queue.Stats{}
	for _, t := range topics {
		count := func(s queue.State) int64 { return int64(len(f.of(t, s))) }
		all[t] = queue.Stats{
			Delayed: count(queue.Delayed), Ready: count(queue.Ready), Running: count(queue.Running), Dead: count(queue.Dead),
			OldestReady: 1500 * time.Millisecond,
		}
	}
	return all, f.fail
}

func (f *fakeJobs) DropTopic(_ context.Context, topic string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for key, j := range f.jobs {
		if j.Topic == topic {
			delete(f.jobs, key)
			n++
		}
	}
	f.did("drop %s %d", topic, n)
	return n, f.fail
}

func (f *fakeJobs) Health(context.Context) []queue.ShardHealth {
	return []queue.ShardHealth{
		{Name: "one", State: "active", Up: true, Latency: 400 * time.Microsecond, Memory: 1 << 20, Jobs: 7},
		{Name: "two", State: "draining", Err: "connection refused"},
	}
}

func (f *fakeJobs) Ready() error { return f.fail }

// fakeRegistry keeps topics in memory.
type fakeRegistry struct {
	refreshes atomic.Int32

	mu       sync.Mutex
	snapshot *registry.Snapshot
	fail     error
	actor    string
	uses     []string // of tokens, as they were stored
}

func (f *fakeRegistry) Snapshot() *registry.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}

// edit makes a new snapshot, as the registry does: the old one is never modified.
func (f *fakeRegistry) edit(change func(*registry.Snapshot)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := &registry.Snapshot{Topics: f.snapshot.Topics, Tokens: map[string]*registry.Token{}, Shards: f.snapshot.Shards}
	for k, v := range f.snapshot.Tokens {
		next.Tokens[k] = v
	}
	change(next)
	f.snapshot = next
}

func (f *fakeRegistry) PutTopics(
	_ context.Context, actor string, topics []registry.Topic, conditions ...registry.Condition,
) ([]registry.Done, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	f.actor = actor
	var done []registry.Done
	for _, topic := range topics {
		old := f.Snapshot().Topics.Get(topic.Name)
		if err := f.check(old, conditions); err != nil {
			return nil, err
		}
		topic.CreatedAt, topic.UpdatedAt = time.Now(), time.Now()
		if old != nil && topic.Secrets == nil {
			topic.Secrets = old.Secrets
		}
		f.edit(func(s *registry.Snapshot) { s.Topics = s.Topics.With(topic.Name, &topic) })
		if old == nil {
			done = append(done, registry.TopicCreated)
			continue
		}
		done = append(done, registry.TopicChanged)
	}
	return done, nil
}

func (f *fakeRegistry) check(was *registry.Topic, conditions []registry.Condition) error {
	for _, holds := range conditions {
		if !holds(was) {
			return registry.ErrChanged
		}
	}
	return nil
}

func (f *fakeRegistry) DeleteTopic(_ context.Context, actor, name string, conditions ...registry.Condition) error {
	if f.fail != nil {
		return f.fail
	}
	if err := f.check(f.Snapshot().Topics.Get(name), conditions); err != nil {
		return err
	}
	f.actor = actor
	f.edit(func(s *registry.Snapshot) {
		topics := maps.Collect(s.Topics.All())
		delete(topics, name)
		s.Topics = registry.NewTopics(slices.Collect(maps.Values(topics))...)
	})
	return nil
}

func (f *fakeRegistry) ListTokens() []*registry.Token {
	return slices.SortedFunc(maps.Values(f.Snapshot().Tokens), func(a, b *registry.Token) int {
		return strings.Compare(a.Name, b.Name)
	})
}

func (f *fakeRegistry) CreateToken(
	_ context.Context, actor, name string, rights []registry.Right, topics []string, expires *time.Time,
) (string, *registry.Token, error) {
	if f.fail != nil {
		return "", nil, f.fail
	}
	f.actor = actor
	secret := f.grant(name, strings.Join(topics, " "), rights...)
	token := f.Snapshot().Tokens[hashOf(secret)]
	token.ID, token.ExpiresAt, token.CreatedAt = uint64(1000+len(f.Snapshot().Tokens)), expires, time.Now()
	return secret, token, nil
}

func (f *fakeRegistry) RevokeToken(_ context.Context, actor string, id uint64) error {
	if f.fail != nil {
		return f.fail
	}
	f.actor = actor
	f.edit(func(s *registry.Snapshot) {
		maps.DeleteFunc(s.Tokens, func(_ string, t *registry.Token) bool { return t.ID == id })
	})
	return nil
}

func (f *fakeRegistry) TokenUses(context.Context) (map[uint64]time.Time, error) {
	return map[uint64]time.Time{1: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}, f.fail
}

func (f *fakeRegistry) NoteTokenUses(_ context.Context, ids []uint64, at time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uses = append(f.uses, fmt.Sprint(ids, at.UTC().Format(" 15:04:05")))
	return f.fail
}

// storedUses returns the uses stored since the last call.
func (f *fakeRegistry) storedUses() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	uses := f.uses
	f.uses = nil
	return uses
}

func (f *fakeRegistry) Refresh(context.Context) { f.refreshes.Add(1) }

func (f *fakeRegistry) Up() bool { return f.fail == nil }

func newFakeRegistry() *fakeRegistry {
	s := &registry.Snapshot{
		Tokens: map[string]*registry.Token{},
		Shards: []registry.Shard{{Name: "one", State: registry.ShardActive}, {Name: "old", State: registry.ShardOffline}},
	}
	for _, name := range []string{"shop.orders", "shop.mail", "bank.loans", "shop.paused", "shop.offline"} {
		topic := registry.NewTopic(name)
		topic.CallbackURL = "http://127.0.0.1/" + name
		s.Topics = s.Topics.With(name, &topic)
	}
	s.Topics.Get("shop.paused").State = registry.TopicPaused
	s.Topics.Get("shop.offline").State = registry.TopicOffline
	s.Topics.Get("shop.mail").Priority = "low"
	s.Topics.Get("shop.mail").Delay = registry.Duration(time.Hour)
	s.Topics.Get("shop.mail").Secrets = []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	return &fakeRegistry{snapshot: s}
}

// grant creates a token and returns its secret.
func (f *fakeRegistry) grant(name, topics string, rights ...registry.Right) string {
	secret := "wk_" + name
	f.edit(func(s *registry.Snapshot) {
		hash := hashOf(secret)
		s.Tokens[hash] = &registry.Token{Name: name, Hash: hash, Rights: rights, Topics: strings.Fields(topics)}
	})
	return secret
}

func (f *fakeRegistry) revoke(secret string) {
	f.edit(func(s *registry.Snapshot) { delete(s.Tokens, hashOf(secret)) })
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// api is a running server with fakes for everything around it. Each exchange is checked against openapi.yaml.
type api struct {
	t        *testing.T
	jobs     *fakeJobs
	registry *fakeRegistry
	workers  *fakeWorkers
	server   *server.Server
	url      string
	client   *http.Client
	token    string
}

func newAPI(t *testing.T, adjust ...func(*server.Options)) *api {
	t.Helper()
	a := &api{t: t, jobs: newFakeJobs(), registry: newFakeRegistry(), workers: &fakeWorkers{}}
	a.token = a.registry.grant("all", "*", registry.RightPush, registry.RightRead, registry.RightManage,
		registry.RightConsume)
	opts := server.Options{Jobs: a.jobs, Workers: a.workers, Registry: a.registry, Version: "0.0.0-test"}
	for _, f := range adjust {
		f(&opts)
	}
	var err error
	if a.server, err = server.New(opts); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(a.server)
	t.Cleanup(web.Close)
	a.url = web.URL
	base := &http.Transport{DisableCompression: true}
	t.Cleanup(base.CloseIdleConnections)
	a.client = &http.Client{Transport: openapitest.Transport(t, base)}
	return a
}

// reply is an answer that was read completely.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

func (a *api) do(method, path, body string, header ...string) reply {
	a.t.Helper()
	req, err := http.NewRequest(method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	return a.send(req)
}

func (a *api) send(req *http.Request) reply {
	a.t.Helper()
	resp, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return reply{a.t, resp.StatusCode, resp.Header, string(data)}
}

func (r reply) want(status int) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("answered %d, want %d: %s", r.status, status, r.body)
	}
	return r
}

// json reads the answer.
func (r reply) json() map[string]any {
	r.t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		r.t.Fatalf("%v: %s", err, r.body)
	}
	return v
}

// problem checks a refusal and its field; the detail must contain each of the words.
func (r reply) problem(status int, field string, words ...string) reply {
	r.t.Helper()
	r.want(status)
	v := r.json()
	if got, _ := v["field"].(string); got != field {
		r.t.Errorf("field %q, want %q: %s", got, field, r.body)
	}
	if v["status"] != float64(status) {
		r.t.Errorf("the body's status is %v, the answer's %d", v["status"], status)
	}
	for _, word := range words {
		if detail, _ := v["detail"].(string); !strings.Contains(detail, word) {
			r.t.Errorf("the detail does not say %q: %s", word, r.body)
		}
	}
	return r
}

func (panicking) Recall(context.Context, string, string) (*queue.Job, error) {
	panic("a secret reason")
}

// syncBuffer is a log that tests can read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(s, nil)) }
