package alert

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// SettingName is the name of Settings in the registry.
const SettingName = "alerts"

// Settings are the alert settings that users edit in the admin.
type Settings struct {
	Mail        Mail              `json:"mail"`
	Recipients  []Recipient       `json:"recipients"`
	Webhooks    []Webhook         `json:"webhooks"`
	GroupWait   registry.Duration `json:"group_wait"`   // from the first alert to the first message
	DigestAfter registry.Duration `json:"digest_after"` // from the first message to the next if there is news
	RemindAfter registry.Duration `json:"remind_after"` // between later messages, while an alert lasts
	MaxPerHour  int64             `json:"max_per_hour"` // messages to one recipient; 0: no limit
	DeadDigest  bool              `json:"dead_digest"`  // mail digests of dead jobs to their topics' addresses
	Language    string            `json:"language"`     // of the messages
	Rules       Rules             `json:"rules"`
}

// Modes of encryption for the connection to the mail server.
const (
	TLSNone          = "none"
	TLSOpportunistic = "opportunistic" // STARTTLS where the server offers it
	TLSStart         = "starttls"      // STARTTLS, or the mail fails
	TLSDirect        = "tls"           // TLS from the first byte
)

// Mail is the SMTP server. Without a host no mail is sent.
type Mail struct {
	Host     string    `json:"host"`
	Port     int       `json:"port"`
	Username string    `json:"username"`
	Password seal.Text `json:"password"`
	TLS      string    `json:"tls"`
	From     string    `json:"from"`
}

// Webhook is a webhook to which messages are posted.
type Webhook struct {
	Name     string    `json:"name"`
	URL      seal.Text `json:"url"` // often contains a token
	Preset   string    `json:"preset"`
	Only     Route     `json:"only"`
	Template string    `json:"template"` // template of the JSON body; empty: the preset's
}

// Rules define which problems raise alerts. A limit of zero disables its rule.
type Rules struct {
	Shards       bool              `json:"shards"`         // findings of the redis-checker
	Registry     bool              `json:"registry"`       // the registry's database does not answer
	Journal      bool              `json:"journal"`        // the journal cannot be written
	Ledger       bool              `json:"ledger"`         // a topic's counters do not add up
	Breaker      bool              `json:"breaker"`        // an endpoint is not called because its breaker is open
	NoConsumer   registry.Duration `json:"no_consumer"`    // no callbacks for this long although jobs are ready
	NoWorker     registry.Duration `json:"no_worker"`      // no worker reserved jobs of a pull topic for this long
	NoWorkerJobs int64             `json:"no_worker_jobs"` // although this many jobs are ready
	FailingShare float64           `json:"failing_share"`  // of the attempts of five minutes, 0 to 1
	FailingLeast int64             `json:"failing_least"`  // with at least this many attempts
	DeadJobs     int64             `json:"dead_jobs"`      // of a topic within ten minutes
	OverAfter    registry.Duration `json:"over_after"`     // since a topic's problem was last found
	Lateness     registry.Duration `json:"lateness"`       // of the oldest ready job, or the p99 of a minute

	// Objectives of lateness by topic pattern (orders or shop.*); 0 disables the rule for these topics.
	Objectives map[string]registry.Duration `json:"objectives"`
}

// Objective returns how late a topic may be: its own objective, or that of the longest matching pattern, or the common
// one. The common one does not apply to pull topics, because their workers decide when to reserve.
func (r *Rules) Objective(t *registry.Topic) time.Duration {
	if d, named := r.Objectives[t.Name]; named {
		return d.Std()
	}
	longest, limit := 0, r.Lateness.Std()
	if t.Delivery == registry.DeliveryPull {
		limit = 0
	}
	for pattern, d := range r.Objectives {
		if registry.MatchesPattern(pattern, t.Name) && len(pattern) > longest {
			longest, limit = len(pattern), d.Std()
		}
	}
	return limit
}

// calmMost is the maximum time for which critical causes, and those that are not about a topic, remain open after the
// last finding.
const calmMost = 30 * time.Second

// calmFor returns how long a finding must be absent before its cause ends, so that an intermittent problem is one
// alert.
func (s *Settings) calmFor(f *Finding) time.Duration {
	switch {
	case f.Kind == "paused": // the topic's state is known
		return 0
	case f.Kind == "refused" && f.Shard != "": // not after the shard's problem, whose end reports it
		return 0
	case f.Flaps:
		return flapSpan
	case f.Topic == "" || f.Severity == Critical:
		return s.criticalCalm()
	}
	return s.Rules.OverAfter.Std()
}

func (s *Settings) criticalCalm() time.Duration { return min(s.Rules.OverAfter.Std(), calmMost) }

// Defaults returns the settings of a new installation.
func Defaults() Settings {
	return Settings{
		Mail: Mail{Port: 587, TLS: TLSOpportunistic}, Recipients: []Recipient{}, Webhooks: []Webhook{},
		GroupWait: registry.Duration(30 * time.Second), DigestAfter: registry.Duration(10 * time.Minute),
		RemindAfter: registry.Duration(30 * time.Minute), MaxPerHour: 10, DeadDigest: true, Language: "en",
		Rules: Rules{
			Shards: true, Registry: true, Journal: true, Ledger: true, Breaker: true,
			NoConsumer: registry.Duration(2 * time.Minute),
			NoWorker:   registry.Duration(5 * time.Minute), NoWorkerJobs: 300,
			FailingShare: 0.5, FailingLeast: 20, DeadJobs: 10, Lateness: registry.Duration(5 * time.Second),
			OverAfter: registry.Duration(2 * time.Minute),
		},
	}
}

// Read reads the settings from a snapshot. Missing values have their defaults.
func Read(s *registry.Snapshot) (Settings, error) {
	settings := Defaults()
	_, err := s.Setting(SettingName, &settings)
	return settings, err
}

const (
	maxRecipients = 50
	maxWebhooks   = 10
	minReminder   = time.Minute
)

// Validate returns the errors in the settings as joined *registry.FieldErrors.
func (s *Settings) Validate() error {
	errs := []error{s.Mail.validate(), s.Rules.validate()}
	if len(s.Recipients) > maxRecipients {
		errs = append(errs, registry.Malformed("recipients", "field.too_many", len(s.Recipients), maxRecipients))
	}
	for _, to := range s.Recipients {
		errs = append(errs, to.validate())
	}
	if len(s.Recipients) > 0 && s.Mail.Host == "" {
		errs = append(errs, registry.Malformed("mail.host", "field.smtp_required"))
	}
	if len(s.Webhooks) > maxWebhooks {
		errs = append(errs, registry.Malformed("webhooks", "field.too_many", len(s.Webhooks), maxWebhooks))
	}
	names := map[string]bool{}
	for i := range s.Webhooks {
		w := &s.Webhooks[i]
		errs = append(errs, w.Validate())
		if names[w.Name] {
			errs = append(errs, registry.Malformed("webhooks", "field.duplicate", w.Name))
		}
		names[w.Name] = true
	}
	if s.RemindAfter.Std() < minReminder {
		errs = append(errs, registry.Malformed("remind_after", "field.at_least", s.RemindAfter, minReminder))
	}
	if min(s.GroupWait, s.DigestAfter) < 0 || s.MaxPerHour < 0 {
		errs = append(errs, registry.Malformed("rules", "field.negative"))
	}
	return errors.Join(errs...)
}

func (m *Mail) validate() error {
	if m.Host == "" {
		return nil
	}
	var errs []error
	if strings.ContainsAny(m.Host, " /:@") && !strings.Contains(m.Host, "::") {
		errs = append(errs, registry.Malformed("mail.host", "field.host", m.Host))
	}
	if m.Port < 1 || m.Port > 65535 {
		errs = append(errs, registry.Malformed("mail.port", "field.mail_port", m.Port))
	}
	if !slices.Contains([]string{TLSNone, TLSOpportunistic, TLSStart, TLSDirect}, m.TLS) {
		errs = append(errs, registry.Malformed("mail.tls", "field.one_of", m.TLS, "none, opportunistic, starttls, tls"))
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		errs = append(errs, registry.Malformed("mail.from", "field.email", m.From))
	}
	return errors.Join(errs...)
}

// ObjectivesField names Rules.Objectives in errors.
const ObjectivesField = "rules.objectives"

func (r *Rules) validate() error {
	if r.FailingShare < 0 || r.FailingShare > 1 {
		return registry.Malformed("rules.failing_share", "field.between", r.FailingShare, 0, 1)
	}
	if min(r.NoConsumer, r.NoWorker, r.Lateness, r.OverAfter) < 0 ||
		min(r.NoWorkerJobs, r.FailingLeast, r.DeadJobs) < 0 {
		return registry.Malformed("rules", "field.negative")
	}
	for pattern, d := range r.Objectives {
		if registry.ValidTopicPattern(pattern) != nil {
			return registry.Malformed(ObjectivesField, "field.pattern", pattern)
		}
		if d < 0 {
			return registry.Malformed(ObjectivesField, "field.objective", d, pattern)
		}
	}
	return nil
}

// Validate returns the errors in a webhook.
func (w *Webhook) Validate() error {
	var errs []error
	if strings.TrimSpace(w.Name) == "" || len(w.Name) > 60 {
		errs = append(errs, registry.Malformed("webhooks.name", "field.webhook_name", w.Name))
	}
	if w.Name == mailChannel {
		errs = append(errs, registry.Malformed("webhooks.name", "field.webhook_mail", w.Name))
	}
	errs = append(errs, w.Only.validate("webhooks.only"))
	u, err := url.Parse(string(w.URL))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		errs = append(errs, registry.Malformed("webhooks.url", "field.webhook_url", w.Name))
	}
	// A quote in a server's reply must not end a string of the template, because the reply could add members to the
	// JSON.
	quote := &Message{Title: `"`, Alert: Alert{Subject: `"`, Detail: `"`}}
	if _, err := w.body(quote); err != nil {
		errs = append(errs, registry.Malformed("webhooks.template", "field.template", w.Name, err))
	}
	return errors.Join(errs...)
}

// Presets are body templates for common services. {{json .Text}} is the message as a JSON string, and {{slack .Text}} a
// JSON string without mentions and links of Slack.
var Presets = map[string]string{
	"slack":    `{"text": {{slack .Text}}}`,
	"feishu":   `{"msg_type": "text", "content": {"text": {{json .Text}}}}`,
	"dingtalk": `{"msgtype": "text", "text": {"content": {{json .Text}}}}`,
	"wecom":    `{"msgtype": "text", "text": {"content": {{json .Text}}}}`,
	"generic": `{"phase": {{json .Phase}}, "kind": {{json .Alert.Kind}}, "severity": {{json .Alert.Severity}}, ` +
		`"subject": {{json .Alert.Subject}}, "detail": {{json .Alert.Detail}}, "topic": {{json .Alert.Topic}}, ` +
		`"shard": {{json .Alert.Shard}}, "host": {{json .Alert.Host}}, "began_at": {{json .Alert.BeganAt}}, ` +
		`"ended_at": {{json .Alert.EndedAt}}, "causes": {{json .Alert.Causes}}, "alerts": {{json .Alerts}}, ` +
		`"installation": {{json .Installation}}, "link": {{json .Link}}, "text": {{json .Text}}}`,
}

// body renders the body of a request. It is always JSON.
func (w *Webhook) body(m *Message) ([]byte, error) {
	text := w.Template
	if strings.TrimSpace(text) == "" {
		preset, known := Presets[w.Preset]
		if !known {
			return nil, fmt.Errorf("unknown preset %.40q: choose slack, feishu, dingtalk, wecom or generic, "+
				"or write a template", w.Preset)
		}
		text = preset
	}
	funcs := template.FuncMap{"json": asJSON, "slack": asSlack}
	t, err := template.New("webhook").Option("missingkey=error").Funcs(funcs).Parse(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if err := t.Execute(&b, m); err != nil {
		return nil, err
	}
	if !json.Valid([]byte(b.String())) {
		return nil, errors.New("the result is not JSON: write texts as {{json .Text}}")
	}
	return []byte(b.String()), nil
}

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func asSlack(text string) (string, error) { return asJSON(slackEscapes.Replace(text)) }

func asJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
