package main

import (
	"io"
	"strings"
	"testing"
)

// TestAFlagIsNeverIgnored: values that mean "not given" are refused, so that an empty variable in a script is an error
// instead of a job with an unintended id or due time.
func TestAFlagIsNeverIgnored(t *testing.T) {
	for _, c := range []struct{ line, says string }{
		{"push t --ttr 0s", "--ttr 0s"},
		{"push t --max-attempts 0", "--max-attempts 0"},
		{"push t --id=", "--id must not be empty"},
		{"push t --due=", "--due must not be empty"},
		{"push t --priority=", "--priority must not be empty"},
		{"push t --on-duplicate=", "--on-duplicate must not be empty"},
		{"push t --content-type=", "--content-type must not be empty"},
		{"list t --limit 0", "--limit 0"},
		{"get t j --token=", "--token must not be empty"},
		{"get t j --url=", "--url must not be empty"},
		{"token create x --rights push --topics * --expires=", "--expires must not be empty"},
		{"work t --exec true --ttr 0s", "--ttr 0s"},
		{"work t --exec true --release-delay -1s", "--release-delay -1s"},
		{"work t --exec true --ttr -1s", "--ttr -1s"},
		{"work t --exec true --stop-timeout 0", "--stop-timeout 0s"},
		{"work t --exec true --stop-timeout -1s", "--stop-timeout -1s"},
		{"recover --since -1h", "--since -1h"},
	} {
		api := newFakeAPI(t)
		args := strings.Fields(c.line)
		got := wakecall(t, []string{"WAKECALL_URL=" + api.url, "WAKECALL_TOKEN=secret-token"}, "", args...)
		if got.code != exitUsage || !strings.Contains(got.err, c.says) || len(api.log) > 0 {
			t.Errorf("%s: code %d, %s, sent %q", c.line, got.code, got.err, api.log)
		}
	}
}

func TestANegativeLimitReachesTheServer(t *testing.T) {
	api := newFakeAPI(t)
	api.answers["GET /v1/topics/t/jobs?limit=-1&state=delayed"] = answer{422, `{"status":422,"detail":"limit: no"}`}
	got := wakecall(t, []string{"WAKECALL_URL=" + api.url, "WAKECALL_TOKEN=secret-token"}, "", "list", "t", "--limit",
		"-1")
	if got.code != exitFailed || !strings.Contains(got.err, "limit: no") {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
}

// TestHelpShowsACommandsOwnFlags, which would be hard to find among the 50 flags of the configuration.
func TestHelpShowsACommandsOwnFlags(t *testing.T) {
	for line, own := range map[string]string{
		"check": "--output", "recover": "--since", "import lmstfy": "--admin-redis", "up": "--demo",
	} {
		got := wakecall(t, nil, "", append(strings.Fields(line), "--help")...)
		if !strings.Contains(got.out, own) || strings.Contains(got.out, "--redis-pool-size") ||
			!strings.Contains(got.out, "wakecall config --help") {
			t.Errorf("%s: %s", line, got.out)
		}
	}
	if got := wakecall(t, nil, "", "config", "--help"); !strings.Contains(got.out, "--redis-pool-size") {
		t.Errorf("config: %s", got.out)
	}
}

func TestHelpOfEveryCommand(t *testing.T) {
	a := &program{out: io.Discard, err: io.Discard}
	for _, c := range a.root().Commands() {
		if got := wakecall(t, nil, "", c.Name(), "--help"); got.code != 0 || got.err != "" ||
			!strings.Contains(got.out, "Usage:") {
			t.Errorf("%s --help: code %d %s", c.Name(), got.code, got.err)
		}
	}
}
