package admin

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// TestARedrivenJobIsNotDeletedAsDead: another user re-drove a dead letter that this page still shows. Deleting or
// re-driving it leaves the job alone, and says so; and a job that died after the list of delayed jobs was shown stays a
// dead letter.
func TestARedrivenJobIsNotDeletedAsDead(t *testing.T) {
	t.Parallel()
	s, q := shop(t)
	s.as("ops")
	must(t, q.Push(t.Context(), queue.Push{Topic: "shop.close", ID: "again", Body: []byte(`{}`), Delay: time.Hour}).Err)
	for _, do := range []string{"delete", "retry"} {
		_, body := s.post("/dead/selected", "job", "shop.close/again", "do", do)
		if !strings.Contains(body, "Done for 0 of 1 jobs. Skipped: 0 running, 1 gone or changed since") {
			t.Errorf("%s of a re-driven job: %s", do, body)
		}
		_, body = s.post("/topics/shop.close/jobs", "job", "again", "do", do, "state", "dead", "back",
			"/topics/shop.close?tab=jobs&state=delayed")
		if !strings.Contains(body, "Done for 0 of 1 jobs.") {
			t.Errorf("%s of a re-driven job, on its topic's page: %s", do, body)
		}
	}
	if j, err := q.Get(t.Context(), "shop.close", "again"); err != nil || j.State != queue.Delayed {
		t.Errorf("the job is %+v: %v", j, err)
	}
	if _, body := s.post("/topics/shop.close/jobs", "job", "again", "do", "delete", "state", "delayed", "back",
		"/topics/shop.close?tab=jobs"); !strings.Contains(body, "Done for 1 of 1 jobs.") {
		t.Errorf("an unchanged job is not deleted: %s", body)
	}
}

// TestAnInvalidFilterDeletesNothing: without its time it would match more jobs than intended.
func TestAnInvalidFilterDeletesNothing(t *testing.T) {
	t.Parallel()
	q := newDeadQueue("a", 3)
	s := deadSite(t, q)
	for _, path := range []string{"/dead/delete", "/dead/redrive"} {
		if _, body := s.post(path, "topic", "a", "since", "yesterday"); !strings.Contains(body, "yesterday") {
			t.Errorf("%s does not name the invalid time:\n%s", path, body)
		}
	}
	if status, _ := s.get("/tasks/1"); status != http.StatusNotFound {
		t.Error("a task was started")
	}
}

// TestManyTopicsWithDeadJobsAreCountedInTime: the page is answered before the matches in 2,000 topics are all counted.
func TestManyTopicsWithDeadJobsAreCountedInTime(t *testing.T) {
	t.Parallel()
	q := newDeadQueue("a", 1)
	topics := make([]registry.Topic, 2000)
	for i := range topics {
		name := fmt.Sprintf("many.%d", i)
		topics[i] = registry.NewTopic(name)
		topics[i].CallbackURL = "http://127.0.0.1:1/"
		q.jobs[name], q.stats[name] = nil, queue.Stats{Dead: 1}
	}
	s := open(t, func(o *Options) { o.Queue = q }).as("ops")
	_, err := s.registry.PutTopics(t.Context(), "test", topics)
	must(t, err)
	s.admin.jobs.SetPatience(0)
	s.shows("/dead?text=tls", "Counting")
	if q.lists > 100 {
		t.Errorf("the page listed dead jobs %d times", q.lists)
	}
}

// TestAnEditOfAnotherHostIsNotLost: a change that another host just made, and this one has not seen yet, survives a
// pause here, and the form shows it as the other version.
func TestAnEditOfAnotherHostIsNotLost(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("root")
	form := form("name", "shop.close", "title", "Mine", "etag", s.registry.Snapshot().Topics.Get("shop.close").ETag())
	other, err := registry.Open(registry.Options{DSN: "sqlite:" + s.registry.file, SecretKey: make([]byte, 32)})
	must(t, err)
	t.Cleanup(func() { _ = other.Close() })
	change := func(do func(*registry.Topic)) {
		t.Helper()
		other.Refresh(t.Context())
		next := *other.Snapshot().Topics.Get("shop.close")
		do(&next)
		_, err := other.PutTopic(t.Context(), "test", next)
		must(t, err)
	}
	now := func() *registry.Topic {
		other.Refresh(t.Context())
		return other.Snapshot().Topics.Get("shop.close")
	}
	change(func(t *registry.Topic) { t.Title = "Theirs" })
	if status, body := s.post("/topics/shop.close/pause"); status != http.StatusOK {
		t.Errorf("a pause is %d\n%s", status, body)
	}
	if x := now(); x.Title != "Theirs" || x.State != registry.TopicPaused {
		t.Errorf("after a pause here the topic is %+v", x)
	}
	change(func(t *registry.Topic) { t.Title = "Newest" })
	if status, body := s.post("/topics/shop.close/edit", form...); status != http.StatusConflict ||
		!strings.Contains(body, "Newest") || !strings.Contains(body, "Mine") {
		t.Errorf("the form answers %d, without both versions", status)
	}
}

// TestOnlyTheShownSecretIsDropped: another user has rotated the secret since the page was opened.
func TestOnlyTheShownSecretIsDropped(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("root")
	s.post("/topics/shop.close/secret")
	s.post("/topics/shop.close/secret")
	shown := s.registry.Snapshot().Topics.Get("shop.close")
	s.shows("/topics/shop.close", `name="etag" value="`+shown.ETag()+`"`)
	s.post("/topics/shop.close/secret", "etag", shown.ETag())
	before := s.registry.Snapshot().Topics.Get("shop.close")
	for _, do := range []string{"/secret/drop", "/secret"} {
		status, body := s.post("/topics/shop.close"+do, "etag", shown.ETag())
		if !strings.Contains(body, "was changed in the meantime") {
			t.Errorf("%s from an outdated page: %d", do, status)
		}
	}
	if after := s.registry.Snapshot().Topics.Get("shop.close"); !slices.Equal(after.Secrets, before.Secrets) {
		t.Error("the secrets changed")
	}
	s.post("/topics/shop.close/secret/drop", "etag", before.ETag())
	if after := s.registry.Snapshot().Topics.Get("shop.close"); len(after.Secrets) != 1 ||
		after.Secrets[0] != before.Secrets[0] {
		t.Errorf("%d secrets are left", len(after.Secrets))
	}
}

// TestAShardThatWasChangedMeanwhileIsNotOverwritten: the form shows another user's change of the shard, and does not
// restore a removed one.
func TestAShardThatWasChangedMeanwhileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	put := func(state registry.ShardState) {
		t.Helper()
		must(t, s.registry.PutShard(t.Context(), "test",
			registry.Shard{Name: "one", URL: "redis://:secret@127.0.0.1:1/0", State: state}))
	}
	put(registry.ShardActive)
	seen := regexp.MustCompile(`name="seen" value="([^"]+)"`)
	first := seen.FindStringSubmatch(s.shows("/shards/one/edit"))
	put(registry.ShardDraining)
	form := func(seen string) []string {
		return []string{"name", "one", "url", "redis://127.0.0.1:2/0", "state", "active", "seen", seen}
	}
	status, body := s.post("/shards/one/edit", form(first[1])...)
	if status != http.StatusConflict || !strings.Contains(body, "It is now: draining, redis://:") ||
		!strings.Contains(body, "redis://127.0.0.1:2/0") || strings.Contains(body, "secret") {
		t.Fatalf("an outdated form: %d\n%s", status, body)
	}
	if status, _ := s.post("/shards/one/edit", form(seen.FindStringSubmatch(body)[1])...); status != http.StatusOK ||
		s.registry.ListShards()[0].URL != "redis://127.0.0.1:2/0" {
		t.Errorf("saving again: %d", status)
	}
	must(t, s.registry.DeleteShard(t.Context(), "test", "one"))
	if status, _ := s.post("/shards/one/edit", form("")...); status != http.StatusNotFound ||
		len(s.registry.ListShards()) > 0 {
		t.Errorf("saving a removed shard: %d", status)
	}
}

// TestTheOnlyShardIsNotDrainedByItsForm, nor by the button beside it: its jobs could not be moved anywhere.
func TestTheOnlyShardIsNotDrainedByItsForm(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	one := registry.Shard{Name: "one", URL: "redis://127.0.0.1:1/0", State: registry.ShardActive}
	must(t, s.registry.PutShard(t.Context(), "test", one))
	status, body := s.post("/shards/one/edit", "name", "one", "url", one.URL, "state", "draining")
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "only active shard") {
		t.Errorf("draining the only shard: %d\n%s", status, body)
	}
	if state := s.registry.ListShards()[0].State; state != registry.ShardActive {
		t.Errorf("the shard is %s", state)
	}
}

// TestThePageOfAJobRefreshesItself: after an event it requests its fragments again, but the result of the last action
// is shown on the next page.
func TestThePageOfAJobRefreshesItself(t *testing.T) {
	t.Parallel()
	s, q := shop(t)
	s.as("ops")
	must(t, q.Push(t.Context(), queue.Push{Topic: "shop.close", ID: "one", Body: []byte(`{}`), Delay: time.Hour}).Err)
	mark := regexp.MustCompile(`/jobs/one\?was=([^"]+)"`).FindStringSubmatch(s.shows("/topics/shop.close/jobs/one"))
	ask := func() (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			s.url+"/topics/shop.close/jobs/one?was="+mark[1], nil)
		must(t, err)
		r.Header.Set("HX-Request", "true")
		return s.send(r)
	}
	if status, _ := ask(); status != http.StatusNoContent {
		t.Errorf("without an event, the answer is %d", status)
	}
	follow := s.client.CheckRedirect
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.post("/topics/shop.close/jobs/one", "do", "run")
	s.client.CheckRedirect = follow
	if status, body := ask(); status != http.StatusOK || !strings.Contains(body, `id="wk-head"`) ||
		!strings.Contains(body, `id="wk-body"`) {
		t.Errorf("the fragments are %d", status)
	}
	s.shows("/topics/shop.close/jobs/one", "one is now due.")
}

// TestSettingsThatWereChangedMeanwhileAreNotOverwritten: two people edit the same card of the alert settings. The second
// one is told so, keeps what is typed, and may save it then. Other cards are saved side by side.
func TestSettingsThatWereChangedMeanwhileAreNotOverwritten(t *testing.T) {
	t.Parallel()
	s := open(t, nil).as("root")
	seen := func(card, body string) string {
		t.Helper()
		_, form, _ := strings.Cut(body, `id="wk-`+card+`"`)
		found := regexp.MustCompile(`name="seen" value="([^"]+)"`).FindStringSubmatch(form)
		if found == nil {
			t.Fatalf("the card %s does not say what it shows", card)
		}
		return found[1]
	}
	const conflict = "Somebody else changed these settings"
	mail := func(host, seen string) []string {
		return []string{"mail.host", host, "mail.port", "25", "mail.tls", "none", "mail.from", "w@example.com", "seen", seen}
	}
	stored := func() alert.Settings {
		t.Helper()
		now, err := alert.Read(s.registry.Snapshot())
		must(t, err)
		return now
	}
	opened := s.shows("/alerts/settings")
	if status, body := s.post("/alerts/mail", mail("theirs", seen("mail", opened))...); status != http.StatusOK {
		t.Fatalf("the first: %d\n%s", status, body)
	}
	if status, _ := s.post("/alerts/recipients", "recipients", "a@example.com", "seen", seen("recipients", opened)); status !=
		http.StatusOK || len(stored().Recipients) != 1 {
		t.Errorf("another card: %d", status)
	}
	res, body := s.part("/alerts/mail", mail("mine", seen("mail", opened))...)
	if res.StatusCode != http.StatusConflict || strings.Count(body, conflict) != 1 || stored().Mail.Host != "theirs" ||
		!strings.Contains(body, `name="mail.host" type="text" value="mine"`) {
		t.Fatalf("the second: %d, the server is now %s\n%s", res.StatusCode, stored().Mail.Host, body)
	}
	if status, _ := s.post("/alerts/mail", mail("mine", seen("mail", body))...); status != http.StatusOK ||
		stored().Mail.Host != "mine" || len(stored().Recipients) != 1 {
		t.Errorf("saving again: %d, the server is now %s", status, stored().Mail.Host)
	}
	if status, _ := s.post("/alerts/recipients", "recipients", "", "seen", seen("recipients", opened)); status !=
		http.StatusConflict || len(stored().Recipients) != 1 {
		t.Errorf("outdated recipients: %d", status)
	}
}

// TestAPauseDoesNotTakeBackWhatSomebodyElseDid: a topic that was taken offline since the page was opened is neither
// paused nor resumed by it.
func TestAPauseDoesNotTakeBackWhatSomebodyElseDid(t *testing.T) {
	t.Parallel()
	s, _ := shop(t)
	s.as("root")
	s.shows("/topics/shop.close", `name="was" value="active"`)
	s.post("/topics/shop.close/offline", "was", "active")
	s.as("ops")
	for was, do := range map[string]string{"active": "pause", "paused": "resume"} {
		_, body := s.post("/topics/shop.close/"+do, "was", was)
		if state := s.registry.Snapshot().Topics.Get("shop.close").State; state != registry.TopicOffline ||
			!strings.Contains(body, "was changed in the meantime") {
			t.Errorf("%s from an outdated page: the topic is %s", do, state)
		}
	}
}
