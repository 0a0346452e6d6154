package alert

import (
	"encoding/json"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/smtptest"
)

// forged would add headers, MIME parts, lines and chat markup wherever it was written unescaped.
const forged = "x\r\nBcc: evil@evil.example\r\nContent-Type: " +
	"text/html\r\n\r\n<script>FORGED</script>\nFORGED\u2028FORGED\u0085FORGED\x1b[2J\u202e <!channel> " +
	"<https://evil.example|click>\x00"

func forgedMessage() *Message {
	return &Message{
		Phase: Begins, At: time.Now(), Link: "https://h/?a=" + "x", Title: forged + strings.Repeat("long ", 1000),
		Parts: []Part{{forged, []Line{{Text: "id-1: " + forged}, {Title: forged, Text: strings.Repeat(forged, 200)},
			{Cells: []string{forged, forged}}}}},
		Thread: "t", First: true,
		Alert: Alert{
			Kind:     "shard_down",
			Severity: Critical,
			Subject:  forged + strings.Repeat("long ", 1000),
			Detail:   forged,
			Host:     "h1",
			BeganAt:  time.Now(),
		},
	}
}

// TestAMailIsWhatItsAlertSays: untrusted text adds no header, recipient, MIME part or line.
func TestAMailIsWhatItsAlertSays(t *testing.T) {
	t.Parallel()
	s := smtptest.Start(t)
	settings := Mail{Host: s.Host, Port: s.Port, TLS: TLSNone, From: "Wakecall <wakecall@example.com>"}
	if err := SendMail(t.Context(), settings, "Ops <ops@example.com>", forgedMessage()); err != nil {
		t.Fatal(err)
	}
	m := s.Mails()[0]
	known := []string{"From", "To", "Subject", "Date", "Message-Id", "Auto-Submitted", "Mime-Version", "Content-Type"}
	for name, values := range m.Header {
		if !slices.Contains(known, name) || len(values) != 1 {
			t.Errorf("there is a header %s: %q", name, values)
		}
	}
	if strings.ContainsAny(m.Subject, "\r\n\x1b\x00\u2028\u0085\u202e") || len(m.Subject) > 2*maxSubjectBytes ||
		m.To != "ops@example.com" {
		t.Errorf("it goes to %s with the subject %q", m.To, m.Subject)
	}
	for line := range strings.Lines(m.Raw) {
		if len(line) > 998 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	_, raw, _ := strings.Cut(m.Raw, "\r\n\r\n")
	parts := 0
	for r := multipart.NewReader(strings.NewReader(raw), params["boundary"]); ; parts++ {
		if _, err := r.NextPart(); err != nil {
			break
		}
	}
	if parts != 2 {
		t.Errorf("it has %d parts", parts)
	}
	if strings.Contains(forgedMessage().HTML(), "<script>") {
		t.Error("the HTML part has a script")
	}
	for line := range strings.SplitSeq(forgedMessage().Text(), "\n") {
		if strings.HasPrefix(line, "FORGED") || strings.ContainsAny(line, "\r\x1b\x00\u2028\u0085\u202e") {
			t.Errorf("a line of the text is %q", line)
		}
	}
}

// TestAnAddressIsOneAddress: settings and topics refuse values with more than an address; if one is stored in another
// way, no mail is sent with it.
func TestAnAddressIsOneAddress(t *testing.T) {
	t.Parallel()
	s := smtptest.Start(t)
	for _, address := range []string{
		"a@example.com\r\nBcc: evil@evil.example", "a@example.com\nRCPT TO:<evil@evil.example>",
		"a@example.com>\r\nDATA", "\"a\r\nb\"@example.com",
		"a@example.com, evil@evil.example", "a@example.com\x00", "<a@example.com> <evil@evil.example>",
		"a@exa\u2028mple.com\r\n",
	} {
		settings := Defaults()
		settings.Mail = Mail{Host: s.Host, Port: s.Port, TLS: TLSNone, From: "wakecall@example.com"}
		for what, change := range map[string]func(*Settings){
			"recipients": func(s *Settings) { s.Recipients = []Recipient{{Address: address}} },
			"mail.from":  func(s *Settings) { s.Mail.From = address },
		} {
			wrong := settings
			change(&wrong)
			if err := wrong.Validate(); err == nil || strings.ContainsAny(err.Error(), "\r\x00\u2028") {
				t.Errorf("%q is parsed as %s: %v", address, what, err)
			}
		}
		topic := registry.NewTopic("t")
		topic.CallbackURL, topic.Emails = "http://h/", []string{address}
		if topic.Validate() == nil {
			t.Errorf("a topic accepts %q", address)
		}
		_ = SendMail(t.Context(), settings.Mail, address, forgedMessage()) // an error, or one mail to one recipient
		from := settings.Mail
		from.From = address
		_ = SendMail(t.Context(), from, "ops@example.com", forgedMessage())
	}
	for _, m := range s.Mails() {
		if strings.Contains(m.To+m.From, "evil") || m.Header.Get("Bcc") != "" {
			t.Errorf("a mail was sent from %q to %q with %v", m.From, m.To, m.Header)
		}
		if _, err := mail.ParseAddressList(m.Header.Get("To")); err != nil && strings.Contains(m.Raw, "\nBcc:") {
			t.Errorf("a mail has a forged header: %v", m.Header)
		}
	}
}

// TestAWebhookSaysWhatItsAlertSays: untrusted text is one JSON string, and in Slack it can neither mention everybody
// nor add links.
func TestAWebhookSaysWhatItsAlertSays(t *testing.T) {
	t.Parallel()
	for preset := range Presets {
		m := forgedMessage()
		m.Alert.Detail += `","channel":"#all","x":"` + "\xff"
		m.Parts = append(m.Parts, Part{Lines: []Line{{Text: m.Alert.Detail}}})
		body, err := (&Webhook{Preset: preset}).body(m)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(body, &fields); err != nil || fields["channel"] != nil {
			t.Errorf("%s: %v, %v", preset, err, fields)
		}
		if text, _ := fields["text"].(string); preset == "slack" &&
			(strings.ContainsAny(text, "<>") || !strings.Contains(text, "&lt;!channel&gt;")) {
			t.Errorf("Slack gets %q", text)
		}
		if strings.ContainsAny(string(body), "\n\r\x1b\u2028\u0085") && preset != "generic" {
			t.Errorf("%s: lines in %q", preset, body)
		}
	}
}
