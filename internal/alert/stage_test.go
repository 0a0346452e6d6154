package alert

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/message"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/smtptest"
	"github.com/wakecall/wakecall/test/wait"
	"github.com/wakecall/wakecall/web"
)

var eventually = wait.For

// stage is a host that runs alerts, in a world that the test can break.
type stage struct {
	mu           sync.Mutex
	findings     []Finding
	blind        bool // it cannot tell what has ended
	looks        int
	settings     Settings
	store        Storage
	limit        time.Duration // of a store call; 0: long
	alertmanager string
	a            *Alerts
	stop         func()
}

func (s *stage) wrong(list ...Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings = list
}

// cannotTell removes all findings, on a host that cannot see everything (blind) or can again.
func (s *stage) cannotTell(blind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings, s.blind = nil, blind
}

func newStore(t *testing.T) *Store { return NewStore(dbtest.Open(t, dbtest.SQLite(t))) }

func play(t *testing.T, host string, store Storage, settings Settings) *stage {
	t.Helper()
	return playFrom(t, host, store, &stage{settings: settings, store: store})
}

// playBlind is a host that cannot yet tell what has ended.
func playBlind(t *testing.T, host string, store Storage, settings Settings) *stage {
	t.Helper()
	return playFrom(t, host, store, &stage{settings: settings, store: store, blind: true})
}

func playFrom(t *testing.T, host string, store Storage, s *stage) *stage {
	t.Helper()
	s.a = New(Options{
		Store: store, Host: host, Every: 20 * time.Millisecond,
		AdminURL: "http://admin.example/", Web: http.DefaultClient,
		Say: english(t), AlertmanagerURL: s.alertmanager,
		Settings: func() (Settings, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.settings, nil
		},
		Find: func(context.Context, Rules) ([]Finding, Judge) {
			s.mu.Lock()
			defer s.mu.Unlock()
			blind := s.blind
			s.looks++
			return append([]Finding(nil), s.findings...), func(Finding) bool { return !blind }
		},
	})
	s.a.outbox.waits = []time.Duration{20 * time.Millisecond, 20 * time.Millisecond}
	s.a.storeLimit = cmp.Or(s.limit, wait.Limit)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.a.Run(ctx) })
	s.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(s.stop)
	return s
}

func mailTo(s *smtptest.Server, to ...string) Settings {
	x := Defaults()
	x.Mail = Mail{Host: s.Host, Port: s.Port, TLS: TLSOpportunistic, From: "Wakecall <wakecall@test.example>"}
	x.GroupWait, x.DigestAfter, x.Rules.OverAfter = 0, 0, 0
	for _, address := range to {
		x.Recipients = append(x.Recipients, Recipient{Address: address})
	}
	return x
}

// english are the English texts of messages.
func english(t testing.TB) func(string) Say {
	t.Helper()
	texts, err := web.LoadTexts()
	if err != nil {
		t.Fatal(err)
	}
	return func(language string) Say { return texts[language].T }
}

func testMessage(t testing.TB) *Message { return TestMessage("h1", "", english(t)("en")) }

var down = Finding{Shard: "a",
	Cause: Cause{Kind: "shard_down", Severity: Critical, Text: message.Plain("connection <refused>")}}

func subjects(s *smtptest.Server) (list []string) {
	for _, m := range s.Mails() {
		list = append(list, m.To+" "+m.Subject)
	}
	return list
}

// rounds waits until a host has completed this many more rounds.
func (s *stage) rounds(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	end := s.looks + n
	s.mu.Unlock()
	eventually(t, "more rounds", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.looks > end
	})
}
