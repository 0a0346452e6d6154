package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wakecall/wakecall/client"
)

// TestMovesOfGroups: each sends the API's request.
func TestMovesOfGroups(t *testing.T) {
	f := newFakeAPI(t)
	f.answers["PATCH /v1/groups/g%2F1"] = answer{200, `{"moved":2,"skipped":1}`}
	for line, want := range map[string]string{
		"--delay 90":                 `{"delay":"1m30s"}`,
		"--delay 0":                  `{"delay":"0s"}`,
		"--due 2026-01-02T03:34:05Z": `{"due_at":"2026-01-02T03:34:05.000Z"}`,
		"--shift -15m":               `{"shift":"-15m0s"}`,
		"--shift 1h --key k":         `{"shift":"1h0m0s"}`,
	} {
		got := f.wakecall(t, "", append([]string{"group", "move", "g/1"}, strings.Fields(line)...)...)
		if sent := f.changes(); got.code != 0 || len(sent) != 1 || sent[0] != "PATCH /v1/groups/g%2F1 "+want {
			t.Errorf("%s: code %d, %s sent %q", line, got.code, got.err, sent)
		}
	}
	for line, says := range map[string]string{
		"move g": "set one of", "move g --delay 1 --shift 1": "set one of", "move g --delay 1 --key k": "--key is for --shift",
		"move g --shift 0": "--shift 0s must be above zero", "move g --shift 1 --key=": "--key must not be empty",
		"move g --due soon": "--due", "move": "GROUP is required", "show": "GROUP is required", "cancel": "GROUP is required",
		"show g --limit 0": "--limit 0", "cancel g --close 0": "--close 0s must be above zero", "cancel g --close=": "--close",
	} {
		got := f.wakecall(t, "", append([]string{"group"}, strings.Fields(line)...)...)
		if sent := f.changes(); got.code != exitUsage || !strings.Contains(got.err, says) || len(sent) > 0 {
			t.Errorf("%s: code %d, %s sent %q", line, got.code, got.err, sent)
		}
	}
}

// TestAFailedShiftCanBeRepeated: the error has the key that was sent, unless the user knows it or nothing was moved.
func TestAFailedShiftCanBeRepeated(t *testing.T) {
	var status atomic.Int64
	var key atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key.Store(r.Header.Get("Idempotency-Key"))
		if status.Load() == 0 {
			panic(http.ErrAbortHandler)
		}
		problem(w, int(status.Load()), "it failed")
	}))
	t.Cleanup(srv.Close)
	env := []string{"WAKECALL_URL=" + srv.URL, "WAKECALL_TOKEN=x"}
	named := regexp.MustCompile(`--key (\S+)`)
	for _, c := range []struct {
		status int64
		args   []string
		shown  bool
	}{
		{0, nil, true}, {503, nil, true}, {500, []string{"-o", "json"}, true},
		{403, nil, false}, {0, []string{"--key", "mine"}, false},
	} {
		status.Store(c.status)
		got := wakecall(t, env, "", append([]string{"group", "move", "g", "--shift", "1h"}, c.args...)...)
		sent := key.Load()
		shown := named.FindStringSubmatch(got.err)
		if got.code != exitFailed || sent == "" || (shown != nil) != c.shown || c.shown && strings.Trim(shown[1], `"`+",") != sent {
			t.Errorf("%d %v: code %d, sent the key %s: %s", c.status, c.args, got.code, sent, got.err)
		}
	}
}

// TestErrorsOfGroupsNameTheFlag.
func TestErrorsOfGroupsNameTheFlag(t *testing.T) {
	f := newFakeAPI(t)
	refuse := func(field string) answer {
		return answer{422, `{"status":422,"code":"` + client.CodeInvalid + `","field":"` + field + `","detail":"too long"}`}
	}
	f.answers["DELETE /v1/groups/g?close=1000h0m0s"] = refuse("close")
	f.answers["PATCH /v1/groups/g"] = refuse("Idempotency-Key")
	for line, says := range map[string]string{
		"group cancel g --close 1000h":     "--close: too long",
		"group move g --shift 1h --key kk": "--key: too long",
	} {
		if got := f.wakecall(t, "", strings.Fields(line)...); got.code != exitFailed || !strings.Contains(got.err, says) {
			t.Errorf("%s: code %d, %s", line, got.code, got.err)
		}
	}
}
