package test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
)

// TestAssistant: people ask an AI assistant "was order-42 called?", which asks `wakecall mcp`.
func TestAssistant(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	t.Run("was it called?", i.assistantFinds)
	t.Run("it changes nothing unless allowed", i.assistantChanges)
	t.Run("it sees what its token may read", i.assistantRights)
	t.Run("it ends with its input, and at SIGTERM", i.assistantEnds)
}

// assistant starts `wakecall mcp` and connects to it as the program of an assistant does.
func (i *installation) assistant(t *testing.T, args ...string) (*mcp.ClientSession, *exec.Cmd) {
	t.Helper()
	cmd := i.Command(append([]string{"mcp"}, args...)...)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).
		Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: soon}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, cmd
}

// found is what find_job returns.
type found struct {
	Summary  string
	Complete bool
	Jobs     []struct {
		Topic, State, Summary, Body string
		History                     []struct{ Status int }
	}
	Past []struct{ Topic string }
}

func ask(t *testing.T, s *mcp.ClientSession, tool string, args M, out any) error {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err
	}
	if r.IsError {
		return errors.New(r.Content[0].(*mcp.TextContent).Text)
	}
	return json.Unmarshal([]byte(r.Content[0].(*mcp.TextContent).Text), out)
}

func (i *installation) assistantFinds(t *testing.T) {
	c := i.client(t)
	s, _ := i.assistant(t)
	good := i.topic(t, nil, nil)
	forgets, bad := good+"-forgets", good+"-bad"
	i.put(t, forgets, nil, M{"remember": "0"})
	i.put(t, bad, harness.Text(500, "out of stock"), M{"retry": []string{"1h"}})
	i.MustPush(t, good, M{"id": "delayed", "body": M{"n": 1}, "delay": "1h"})
	i.MustPush(t, good, M{"id": "deleted", "body": 1, "delay": "1h"})
	i.MustPush(t, good, M{"id": "finished", "body": 1})
	i.MustPush(t, forgets, M{"id": "forgotten", "body": 1})
	i.MustPush(t, bad, M{"id": "retried", "body": 1})
	i.MustPush(t, bad, M{"id": "dead", "body": 1, "max_attempts": 1})
	i.MustDo(t, http.StatusNoContent, http.MethodDelete, harness.JobPath(good, "deleted"), nil)
	waitDone(t, c, good, "finished")
	for id, want := range map[string]string{
		"delayed": "not called yet: due ", "deleted": "deleted, ", "finished": "called: delivered after 1 attempt, ",
		"forgotten": "delivered, ", "retried": "not delivered yet: 1 attempt failed, next attempt ",
		"dead": "not delivered: dead after 1 attempt, since ", "unknown": "unknown: ",
	} {
		var f found
		harness.Eventually(t, soon, id+" to be found", func() error {
			f = found{}
			if err := ask(t, s, "find_job", M{"id": id}, &f); err != nil {
				return err
			}
			return harness.Equal("the beginning of "+f.Summary, strings.HasPrefix(f.Summary, want), true)
		})
		if !f.Complete || (len(f.Past) == 0) != (id == "unknown") {
			t.Errorf("%s: %+v", id, f)
		}
		if id == "dead" && (len(f.Jobs) != 1 || len(f.Jobs[0].History) != 1 || f.Jobs[0].History[0].Status != 500) {
			t.Errorf("%s: %+v", id, f)
		}
	}
	var stats struct{ Delayed, Dead int }
	if err := ask(t, s, "topic_stats", M{"topic": bad}, &stats); err != nil || stats.Delayed != 1 || stats.Dead != 1 {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	for tool, args := range map[string]M{
		"list_jobs": {"topic": bad, "state": "dead", "reason": "attempts"}, "dead_letters": {"topic": bad},
		"list_topics": {"prefix": good}, "alerts": {}, "shards": {},
	} {
		if err := ask(t, s, tool, args, &map[string]any{}); err != nil {
			t.Errorf("%s: %v", tool, err)
		}
	}
}

func (i *installation) assistantChanges(t *testing.T) {
	topic := i.topic(t, nil, nil)
	i.MustPush(t, topic, M{"id": "x", "body": 1, "delay": "1h"})
	s, _ := i.assistant(t)
	for _, tool := range []string{"run_job", "delete_job"} {
		if err := ask(t, s, tool, M{"topic": topic, "id": "x"}, nil); err == nil || !strings.Contains(err.Error(), tool) {
			t.Errorf("%s: %v", tool, err)
		}
	}
	i.MustGet(t, topic, "x")
	s, _ = i.assistant(t, "--allow-changes")
	if err := ask(t, s, "run_job", M{"topic": topic, "id": "x"}, &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	i.endpoint.WaitCalls(t, topic, 1)
	i.MustPush(t, topic, M{"id": "z", "body": 1, "delay": "1h", "group": topic})
	var group struct {
		Deleted int
		Jobs    []struct{ ID, Group string }
	}
	if err := ask(t, s, "group_jobs", M{"group": topic}, &group); err != nil || len(group.Jobs) != 1 ||
		group.Jobs[0].Group != topic {
		t.Errorf("the group: %+v, %v", group, err)
	}
	if err := ask(t, s, "cancel_group", M{"group": topic, "close": "10m"}, &group); err != nil || group.Deleted != 1 {
		t.Errorf("cancelled: %+v, %v", group, err)
	}
	i.waitGone(t, topic, "z")
	i.MustDo(t, http.StatusCreated, http.MethodPut, "/v1/schedules/"+topic, M{"topic": topic, "cron": "@daily", "body": 1})
	var schedule struct {
		State, Next string
		Schedules   []struct{ Name string }
	}
	if err := ask(t, s, "pause_schedule", M{"schedule": topic}, &schedule); err != nil || schedule.State != "paused" {
		t.Errorf("paused: %+v, %v", schedule, err)
	}
	if err := ask(t, s, "resume_schedule", M{"schedule": topic}, &schedule); err != nil || schedule.State != "active" ||
		schedule.Next == "" {
		t.Errorf("resumed: %+v, %v", schedule, err)
	}
	if err := ask(t, s, "run_schedule", M{"schedule": topic}, &map[string]any{}); err != nil {
		t.Error(err)
	}
	i.endpoint.WaitCalls(t, topic, 2)
	err := errors.Join(ask(t, s, "show_schedule", M{"schedule": topic}, &schedule),
		ask(t, s, "list_schedules", M{"topic": topic}, &schedule))
	if err != nil || len(schedule.Schedules) != 1 || schedule.Schedules[0].Name != topic {
		t.Errorf("listed: %+v, %v", schedule, err)
	}
	var topics struct{ Topics []struct{ State string } }
	err = errors.Join(ask(t, s, "pause_topic", M{"topic": topic, "reason": "stock count"}, &map[string]any{}),
		ask(t, s, "list_topics", M{"prefix": topic}, &topics))
	if err != nil || len(topics.Topics) != 1 || topics.Topics[0].State != "paused" {
		t.Errorf("%+v, %v", topics, err)
	}
	var f struct{ Jobs []struct{ Waits string } }
	i.MustPush(t, topic, M{"id": "y", "body": 1})
	if err := ask(t, s, "find_job", M{"id": "y"}, &f); err != nil || len(f.Jobs) != 1 ||
		!strings.Contains(f.Jobs[0].Waits, "stock count") {
		t.Errorf("a job of the paused topic: %+v, %v", f, err)
	}
}

func (i *installation) assistantRights(t *testing.T) {
	i.put(t, "shop.orders", nil, nil)
	i.put(t, "bank.orders", nil, nil)
	for _, topic := range []string{"shop.orders", "bank.orders"} {
		i.MustPush(t, topic, M{"id": "order-42", "body": 1, "delay": "1h"})
	}
	var token cliToken
	out := i.succeeds(t, "token", "create", "shop", "--rights", "read,manage", "--topics", "shop.*", "-o", "json")
	if err := json.Unmarshal([]byte(out), &token); err != nil {
		t.Fatal(err)
	}
	s, _ := i.assistant(t, "--token", token.Token)
	var f found
	harness.Eventually(t, soon, "the token to work", func() error { return ask(t, s, "find_job", M{"id": "order-42"}, &f) })
	if len(f.Jobs) != 1 || f.Jobs[0].Topic != "shop.orders" || len(f.Past) != 1 || f.Past[0].Topic != "shop.orders" {
		t.Errorf("found %+v", f)
	}
	var topics struct{ Topics []struct{ Name string } }
	if err := ask(t, s, "list_topics", nil, &topics); err != nil || len(topics.Topics) != 1 ||
		topics.Topics[0].Name != "shop.orders" {
		t.Errorf("topics %+v, %v", topics, err)
	}
	for tool, args := range map[string]M{
		"topic_stats": {"topic": "bank.orders"}, "list_jobs": {"topic": "bank.orders", "state": client.Delayed},
		"find_job": {"id": "order-42", "topic": "bank.orders"}, "dead_letters": {"topic": "bank.orders"},
	} {
		err := ask(t, s, tool, args, &map[string]any{})
		if err == nil || !strings.Contains(err.Error(), "wakecall token create") {
			t.Errorf("%s of another team's topic: %v", tool, err)
		}
	}
}

func (i *installation) assistantEnds(t *testing.T) {
	for name, end := range map[string]func(*mcp.ClientSession, *exec.Cmd) error{
		"end of input": func(s *mcp.ClientSession, _ *exec.Cmd) error { return s.Close() },
		"SIGTERM": func(s *mcp.ClientSession, cmd *exec.Cmd) error {
			return errors.Join(cmd.Process.Signal(syscall.SIGTERM), s.Wait())
		},
	} {
		s, cmd := i.assistant(t)
		ended := make(chan error, 1)
		go func() { ended <- end(s, cmd) }()
		select {
		case err := <-ended:
			_ = s.Close()
			if code := cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("%s: code %d, %v", name, code, err)
			}
		case <-time.After(soon):
			t.Errorf("%s: it still runs", name)
		}
	}
}
