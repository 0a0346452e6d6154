package alert

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/smtptest"
)

// Gmail refuses mails without a Message-ID, after the relay has accepted them. A mail that is sent again has the same
// one, also from another process, so that the recipient's server can drop the second copy.
func TestEveryMailHasAMessageID(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	dead := &news{dead: []DeadTopic{{Topic: "shop.close", Count: 1, Last: []DeadJob{{ID: "a", Error: "gone"}}}}}
	a := &Alerts{opts: Options{Host: "h1"}}
	messages := map[string]*Message{
		"test": testMessage(t), "dead jobs": a.compose(dead, english(t)("en"), now),
		"alert": {At: now, Title: "down", Thread: "t1", First: true},
		"later": {At: now, Title: "still down", Thread: "t1"},
	}
	s := smtptest.Start(t)
	ids := map[string]string{}
	for name, m := range messages {
		var again Message
		if text, err := json.Marshal(m); err != nil || json.Unmarshal(text, &again) != nil {
			t.Fatal(err)
		}
		for _, x := range []*Message{m, m, &again} {
			if err := SendMail(t.Context(), mailTo(s).Mail, "ops@test.example", x); err != nil {
				t.Fatal(err)
			}
		}
		mails := s.Mails()
		for _, mail := range mails[len(mails)-3:] {
			id := mail.Header.Get("Message-Id")
			if !strings.HasPrefix(id, "<") || !strings.HasSuffix(id, "@wakecall>") || ids[id] != "" && ids[id] != name {
				t.Errorf("%s has Message-ID %q, which is that of %q", name, id, ids[id])
			}
			ids[id] = name
		}
	}
	if len(ids) != len(messages) {
		t.Errorf("%d mails, sent three times each, have %d ids: %v", len(messages), len(ids), ids)
	}
	if m := testMessage(t); m.id("a@test.example") == m.id("b@test.example") {
		t.Error("mails to two recipients have one id")
	}
}

// Only servers with SMTPUTF8 accept a domain outside ASCII.
func TestDomainsOfAddressesAreMapped(t *testing.T) {
	t.Parallel()
	for offer, domain := range map[string]string{"": "xn--bcher-kva.example", "SMTPUTF8": "bücher.example"} {
		s := converses(t, slices.DeleteFunc([]string{offer}, func(o string) bool { return o == "" }), nil)
		m := s.mail()
		m.From, m.Username = "Wakecall <w@bücher.example>", ""
		err := SendMail(t.Context(), m, "Ops <ops@bücher.example>", testMessage(t))
		told := strings.Join(<-s.lines, "\n")
		if err != nil || !strings.Contains(told, "FROM:<w@"+domain+">") || !strings.Contains(told, "TO:<ops@"+domain+">") {
			t.Errorf("%q offered: %v, the server received %s", offer, err, told)
		}
	}
	s := smtptest.Start(t)
	m := mailTo(s).Mail
	m.From = "Wakecall <w@bücher.example>"
	if err := SendMail(t.Context(), m, "ops@bücher.example", testMessage(t)); err != nil {
		t.Fatal(err)
	}
	h := s.Mails()[0].Header
	if h.Get("To") != "ops@xn--bcher-kva.example" || !strings.Contains(h.Get("From"), "<w@xn--bcher-kva.example>") {
		t.Errorf("from %s to %s", h.Get("From"), h.Get("To"))
	}
}

// An admin learns nothing about link-local servers by a test mail.
func TestMailServersObeyTheAddressPolicy(t *testing.T) {
	t.Parallel()
	m := Mail{Host: "169.254.1.1", Port: 25, TLS: TLSNone, From: "w@test.example"}
	if err := SendMail(t.Context(), m, "ops@test.example", testMessage(t)); err == nil ||
		!strings.Contains(err.Error(), "not allowed") {
		t.Error(err)
	}
}
