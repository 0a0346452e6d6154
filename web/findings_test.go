package web

import (
	"regexp"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/journal/recovery"
	"github.com/wakecall/wakecall/internal/queue"
)

// english matches three words in a row, which names and commands in a finding do not have.
var english = regexp.MustCompile(`(^| )[a-z]{3,} [a-z]{2,} [a-z]{2,}`)

// TestFindingsOfShardsAreTranslated: they are stored as English text, which the pages recognize.
func TestFindingsOfShardsAreTranslated(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, h := range []queue.ShardHealth{
		{Version: "6.2.0", Policy: "allkeys-lru", LinkDown: true, Jobs: 3},
		{Memory: 99 << 20, MaxMemory: 100 << 20, Policy: "allkeys-lru"},
	} {
		for _, p := range health.Judge(h) {
			texts = append(texts, p.Detail, p.Advice, p.Detail+". "+p.Advice)
		}
	}
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		texts = append(texts, health.JudgeClock(off, 0).Detail)
	}
	for _, said := range []string{"dial tcp 127.0.0.1:6379: connect: connection refused", "context deadline exceeded",
		"dial tcp: lookup redis.example on 10.0.0.2:53: no such host",
		"dial unix /d/redis.sock: connect: no such file or directory"} {
		texts = append(texts, said, "without shard a: "+said)
	}
	texts = append(texts, history.Reading{}.Ledger(), new(recovery.Report).String())
	all, err := LoadMessages()
	if err != nil {
		t.Fatal(err)
	}
	same := func(s string) string { return s }
	for _, l := range Languages[1:] {
		for _, text := range texts {
			if said := all[l.Code].Stored(text, same); said == text || english.MatchString(said) {
				t.Errorf("%s: %q is translated as %q", l.Code, text, said)
			}
		}
	}
}
