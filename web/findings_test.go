package web

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/health"
	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/recovery"
)

// TestFindingsOfShardsAreTranslated: they are stored as English text, which the pages recognize.
func TestFindingsOfShardsAreTranslated(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, h := range []queue.ShardHealth{
		{SameAs: "a", Version: "6.2.0", Policy: "allkeys-lru", LinkDown: true, Jobs: 3},
		{Memory: 99 << 20, MaxMemory: 100 << 20, Policy: "allkeys-lru"},
	} {
		for _, p := range health.Judge(h) {
			texts = append(texts, p.Detail)
		}
	}
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		texts = append(texts, health.JudgeClock(off, 0).Detail)
	}
	texts = append(texts, history.Reading{}.Ledger(), new(recovery.Report).String())
	all, err := LoadMessages()
	if err != nil {
		t.Fatal(err)
	}
	same := func(s string) string { return s }
	for _, l := range Languages[1:] {
		for _, text := range texts {
			if all[l.Code].Stored(text, same) == text {
				t.Errorf("%s: %q is not translated", l.Code, text)
			}
		}
	}
}
