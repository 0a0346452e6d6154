package admin

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/registry"
)

// Names of the settings of alerts in the registry.
const (
	settingMail       = "alert.mail"
	settingRecipients = "alert.recipients"
	settingRules      = "alert.rules"
	settingWebhooks   = "alert.webhooks"
)

// MailSettings is how mail goes out.
type MailSettings struct {
	Enabled  bool            `json:"enabled"`
	Host     string          `json:"host"`
	Port     int             `json:"port"`
	User     string          `json:"user"`
	Password registry.Sealed `json:"password"`
	TLS      string          `json:"tls"` // none, starttls, tls, opportunistic
	From     string          `json:"from"`
}

// mailTLS are the ways to encrypt.
var mailTLS = []string{"opportunistic", "starttls", "tls", "none"}

// Recipient gets alerts by mail.
type Recipient struct {
	Address string   `json:"address"`
	Kinds   []string `json:"kinds,omitempty"` // empty: all
}

// Webhook is a channel beside mail.
type Webhook struct {
	Name    string          `json:"name"`
	Preset  string          `json:"preset"` // generic, slack, feishu, dingtalk, wecom
	URL     registry.Sealed `json:"url"`
	Enabled bool            `json:"enabled"`
}

// Host is the only part of the URL that is shown: the rest lets anybody write there.
func (w Webhook) Host() string {
	u, err := url.Parse(string(w.URL))
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/…"
}

var webhookPresets = []string{"generic", "slack", "feishu", "dingtalk", "wecom"}

// AlertRules say when something is wrong.
type AlertRules struct {
	Off       []string           `json:"off,omitempty"` // kinds that are not looked for
	Limits    map[string]float64 `json:"limits"`        // by name, see ruleKinds
	RemindMin float64            `json:"remind_minutes"`
}

// ruleLimit is a threshold. Its text is alerts.limit_NAME.
type ruleLimit struct {
	Name      string
	Default   float64
	Low, High float64
}

// ruleKind is a kind of alert. Its text is alerts.kind_NAME.
type ruleKind struct {
	Name   string
	Limits []ruleLimit
}

// ruleKinds are those that can be switched and set.
var ruleKinds = []ruleKind{
	{"shard_down", []ruleLimit{{"down_pings", 3, 1, 60}}},
	{"shard_slow", []ruleLimit{{"slow_ms", 100, 1, 10_000}}},
	{"shard_memory", []ruleLimit{{"memory_percent", 85, 1, 100}}},
	{"shard_persistence", nil},
	{"shard_replica", nil},
	{"shard_clock", []ruleLimit{{"clock_seconds", 2, 0.1, 3600}}},
	{"backlog", []ruleLimit{{"backlog_minutes", 5, 0.1, 10_080}}},
	{"topic_failing", []ruleLimit{{"failing_percent", 50, 1, 100}, {"failing_attempts", 20, 1, 100_000}}},
	{"breaker_open", nil},
	{"dead_jobs", nil},
	{"lateness", []ruleLimit{{"lateness_seconds", 5, 0.01, 86_400}}},
	{"ledger", nil},
	{"registry_away", nil},
	{"nobody_consumes", nil},
	{"journal", nil},
}

const (
	defaultRemind = 30
	maxRemind     = 7 * 24 * 60
)

// On says whether a kind is looked for.
func (r AlertRules) On(kind string) bool { return !slices.Contains(r.Off, kind) }

// Limit is a threshold, or its default.
func (r AlertRules) Limit(l ruleLimit) float64 {
	if v, ok := r.Limits[l.Name]; ok {
		return v
	}
	return l.Default
}

// Remind is how often an alert that lasts is told again.
func (r AlertRules) Remind() float64 {
	if r.RemindMin <= 0 {
		return defaultRemind
	}
	return r.RemindMin
}

// fieldError names a field of a form that is wrong; its detail is a text.
func fieldError(field, format string, args ...any) error {
	return &registry.FieldError{Field: field, Detail: fmt.Sprintf(format, args...)}
}

func (m MailSettings) validate() error {
	if !m.Enabled && m.Host == "" {
		return nil
	}
	var errs []error
	if m.Host == "" || strings.ContainsAny(m.Host, " /@") {
		errs = append(errs, fieldError("host", "%q is not the name or address of a host: write smtp.example.com", m.Host))
	}
	if m.Port < 1 || m.Port > 65535 {
		errs = append(errs, fieldError("port", "%d is not a port: 587 for STARTTLS, 465 for TLS, 25 inside of a network", m.Port))
	}
	if !slices.Contains(mailTLS, m.TLS) {
		errs = append(errs, fieldError("tls", "%q is not one of %s", m.TLS, strings.Join(mailTLS, ", ")))
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		errs = append(errs, fieldError("from", "%q is not a mail address: write Wakecall <wakecall@example.com>", m.From))
	}
	return errors.Join(errs...)
}

// readRecipients reads one address a line, each with kinds after it if it does not want all.
func readRecipients(text string) ([]Recipient, error) {
	var list []Recipient
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		address, kinds, _ := strings.Cut(line, ":")
		parsed, err := mail.ParseAddress(strings.TrimSpace(address))
		if err != nil {
			return nil, fieldError("recipients", "%q is not a mail address", strings.TrimSpace(address))
		}
		r := Recipient{Address: parsed.Address}
		for _, kind := range strings.FieldsFunc(kinds, func(c rune) bool { return c == ',' || c == ' ' }) {
			if !slices.ContainsFunc(ruleKinds, func(k ruleKind) bool { return k.Name == kind }) {
				return nil, fieldError("recipients", "%q of %s is not a kind of alert", kind, r.Address)
			}
			r.Kinds = append(r.Kinds, kind)
		}
		list = append(list, r)
	}
	return list, nil
}

func writeRecipients(list []Recipient) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.Address)
		if len(r.Kinds) > 0 {
			b.WriteString(": " + strings.Join(r.Kinds, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (w Webhook) validate() error {
	var errs []error
	if w.Name == "" || len(w.Name) > 64 {
		errs = append(errs, fieldError("webhook_name", "a name of up to 64 characters is needed"))
	}
	u, err := url.Parse(string(w.URL))
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		errs = append(errs, fieldError("webhook_url", "it is not a URL that begins with https:// or http://"))
	}
	if !slices.Contains(webhookPresets, w.Preset) {
		errs = append(errs, fieldError("preset", "%q is not one of %s", w.Preset, strings.Join(webhookPresets, ", ")))
	}
	return errors.Join(errs...)
}

// readRules reads the form of the rules through get, a function that tells a field's value.
func readRules(get func(string) string) (AlertRules, error) {
	r := AlertRules{Limits: map[string]float64{}}
	var errs []error
	for _, kind := range ruleKinds {
		if get("on_"+kind.Name) == "" {
			r.Off = append(r.Off, kind.Name)
		}
		for _, l := range kind.Limits {
			v, err := readLimit(get(l.Name), l)
			if err != nil {
				errs = append(errs, err)
			}
			r.Limits[l.Name] = v
		}
	}
	v, err := readLimit(get("remind"), ruleLimit{"remind", defaultRemind, 1, maxRemind})
	r.RemindMin = v
	return r, errors.Join(append(errs, err)...)
}

func readLimit(text string, l ruleLimit) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(v >= l.Low && v <= l.High) {
		return l.Default, fieldError(l.Name, "%q is not a number from %g to %g", text, l.Low, l.High)
	}
	return v, nil
}

// testLimit bounds a test of mail: a server that hangs says so, too.
const testLimit = 20 * time.Second
