package alerts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/web"
)

// Choices in the forms; their texts are alerts.tls_… and alerts.preset_….
var (
	mailTLS        = []string{alert.TLSOpportunistic, alert.TLSStart, alert.TLSDirect, alert.TLSNone}
	webhookPresets = []string{"generic", "slack", "feishu", "dingtalk", "wecom"}
)

// webhookHost returns the only part of a webhook's URL that is shown: with the rest, anybody could post to it.
func webhookHost(w alert.Webhook) string {
	u, err := url.Parse(string(w.URL))
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/…"
}

// recipientsText formats the recipients for the form.
func recipientsText(list []alert.Recipient) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.String() + "\n")
	}
	return b.String()
}

// seenOf fingerprints what the form of a card shows. Webhooks are added and deleted one at a time, so their form shows
// nothing that somebody else could have changed.
func seenOf(s alert.Settings, card string) string {
	var shown any
	switch card {
	case mailCard:
		s.Mail.Password = ""
		shown = s.Mail
	case recipientsCard:
		shown = recipientsText(s.Recipients)
	case rulesCard:
		s.Mail, s.Recipients, s.Webhooks = alert.Mail{}, nil, nil
		shown = s
	}
	text, _ := json.Marshal(shown) // never fails
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func routeText(r alert.Route) string {
	text, _ := r.MarshalText() // never fails
	return string(text)
}

// ruleLimit is a limit in the form for rules; 0 disables its rule. Its text is alerts.limit_NAME.
type ruleLimit struct {
	Name  string
	Value string
	Error string
}

// ruleSwitch is a rule without a limit. Its text is alerts.rule_NAME.
type ruleSwitch struct {
	Name string
	On   bool
}

// ruleField is a field in the form for rules, and the setting that it shows and changes.
type ruleField struct {
	name    string
	setting any
}

// ruleFields returns the fields in the order of the form.
func ruleFields(s *alert.Settings) []ruleField {
	r := &s.Rules
	return []ruleField{
		{"shards", &r.Shards}, {"registry", &r.Registry}, {"journal", &r.Journal}, {"ledger", &r.Ledger},
		{"breaker", &r.Breaker}, {"dead_digest", &s.DeadDigest},
		{"no_consumer", &r.NoConsumer}, {"no_worker", &r.NoWorker}, {"no_worker_jobs", &r.NoWorkerJobs},
		{"lateness", &r.Lateness}, {"failing_share", &r.FailingShare}, {"failing_least", &r.FailingLeast},
		{"dead_jobs", &r.DeadJobs}, {"over_after", &r.OverAfter}, {"group_wait", &s.GroupWait},
		{"digest_after", &s.DigestAfter}, {"remind_after", &s.RemindAfter}, {"max_per_hour", &s.MaxPerHour},
	}
}

// text formats a limit for the form.
func (f ruleField) text() string {
	switch v := f.setting.(type) {
	case *registry.Duration:
		return printable.ShortDuration(v.Std())
	case *float64:
		return strconv.FormatFloat(*v*100, 'g', 4, 64)
	case *int64:
		return strconv.FormatInt(*v, 10)
	}
	return ""
}

// read sets the setting to the typed value.
func (f ruleField) read(text string) error {
	switch v := f.setting.(type) {
	case *bool:
		*v = text != ""
	case *registry.Duration:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return page.FieldError(f.name, "field.rule_duration", text)
		}
		*v = registry.Duration(d)
	case *int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return page.FieldError(f.name, "field.rule_count", text)
		}
		*v = n
	case *float64:
		percent, err := strconv.ParseFloat(text, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return page.FieldError(f.name, "field.between", text, 0, 100)
		}
		*v = percent / 100
	}
	return nil
}

// readRules reads the form for rules into settings; get returns a field's value.
func readRules(s *alert.Settings, get func(string) string) error {
	var errs []error
	for _, f := range ruleFields(s) {
		errs = append(errs, f.read(strings.TrimSpace(get(f.name))))
	}
	if language := get("language"); language != "" {
		s.Language = web.MatchLanguage(language, "")
	}
	objectives, err := readObjectives(get("objectives"))
	s.Rules.Objectives = objectives
	return errors.Join(append(errs, err)...)
}

// readObjectives parses lines of a pattern and a duration.
func readObjectives(text string) (map[string]registry.Duration, error) {
	objectives := map[string]registry.Duration{}
	for _, line := range lines(text) {
		words := strings.Fields(line)
		if len(words) != 2 {
			return nil, page.FieldError(alert.ObjectivesField, "field.objective_line", line)
		}
		d, err := time.ParseDuration(words[1])
		if err != nil || d < 0 {
			return nil, page.FieldError(alert.ObjectivesField, "field.objective", words[1], words[0])
		}
		if _, twice := objectives[words[0]]; twice {
			return nil, page.FieldError(alert.ObjectivesField, "field.duplicate", words[0])
		}
		objectives[words[0]] = registry.Duration(d)
	}
	return objectives, nil
}

// objectivesText formats objectives for the form.
func objectivesText(objectives map[string]registry.Duration) string {
	var b strings.Builder
	for _, pattern := range slices.Sorted(maps.Keys(objectives)) {
		b.WriteString(pattern + " " + printable.ShortDuration(objectives[pattern].Std()) + "\n")
	}
	return b.String()
}

// lines returns the lines of a text that are not blank.
func lines(text string) []string {
	list := []string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// testLimit bounds the test of a webhook.
const testLimit = 20 * time.Second
