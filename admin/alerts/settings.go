package alerts

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/registry"
	"github.com/wakecall/wakecall/web"
)

// The choices of the forms; their texts are alerts.tls_… and alerts.preset_….
var (
	mailTLS        = []string{alert.TLSOpportunistic, alert.TLSStart, alert.TLSDirect, alert.TLSNone}
	webhookPresets = []string{"generic", "slack", "feishu", "dingtalk", "wecom"}
)

// webhookHost is the only part of a webhook's URL that is shown: the rest lets anybody write there.
func webhookHost(w alert.Webhook) string {
	u, err := url.Parse(string(w.URL))
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + "/…"
}

// recipientsText writes the recipients as the form has them.
func recipientsText(list []alert.Recipient) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.String() + "\n")
	}
	return b.String()
}

func routeText(r alert.Route) string {
	text, _ := r.MarshalText() // has no error
	return string(text)
}

// ruleLimit is a limit of the form of the rules; 0 switches its rule off. Its text is alerts.limit_NAME.
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

// switches are the rules that are on or off, to read and to write.
func switches(s *alert.Settings) map[string]*bool {
	return map[string]*bool{
		"shards": &s.Rules.Shards, "registry": &s.Rules.Registry, "journal": &s.Rules.Journal, "ledger": &s.Rules.Ledger,
		"breaker": &s.Rules.Breaker, "dead_digest": &s.DeadDigest,
	}
}

var (
	switchNames = []string{"shards", "registry", "journal", "ledger", "breaker", "dead_digest"}
	limitNames  = []string{
		"no_consumer", "no_worker", "no_worker_jobs", "lateness", "failing_share", "failing_least", "dead_jobs",
		"over_after", "group_wait", "digest_after", "remind_after", "max_per_hour",
	}
)

func durations(s *alert.Settings) map[string]*registry.Duration {
	return map[string]*registry.Duration{
		"no_consumer": &s.Rules.NoConsumer, "no_worker": &s.Rules.NoWorker, "lateness": &s.Rules.Lateness,
		"over_after": &s.Rules.OverAfter, "group_wait": &s.GroupWait, "digest_after": &s.DigestAfter,
		"remind_after": &s.RemindAfter,
	}
}

func counts(s *alert.Settings) map[string]*int64 {
	return map[string]*int64{
		"no_worker_jobs": &s.Rules.NoWorkerJobs, "failing_least": &s.Rules.FailingLeast, "dead_jobs": &s.Rules.DeadJobs,
		"max_per_hour": &s.MaxPerHour,
	}
}

// limitText writes a limit as the form has it.
func limitText(s *alert.Settings, name string) string {
	if d := durations(s)[name]; d != nil {
		return shortDuration(d.Std())
	}
	if n := counts(s)[name]; n != nil {
		return strconv.FormatInt(*n, 10)
	}
	return strconv.FormatFloat(s.Rules.FailingShare*100, 'g', 4, 64)
}

// shortDuration writes 5m for 5m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// readRules reads the form of the rules into settings; get returns a field's value.
func readRules(s *alert.Settings, get func(string) string) error {
	for name, on := range switches(s) {
		*on = get(name) != ""
	}
	var errs []error
	for _, name := range limitNames {
		if err := readLimit(s, name, strings.TrimSpace(get(name))); err != nil {
			errs = append(errs, err)
		}
	}
	if language := get("language"); language != "" {
		s.Language = web.MatchLanguage(language, "")
	}
	objectives, err := readObjectives(get("objectives"))
	s.Rules.Objectives = objectives
	return errors.Join(append(errs, err)...)
}

// readObjectives reads lines of a pattern and a duration.
func readObjectives(text string) (map[string]registry.Duration, error) {
	objectives := map[string]registry.Duration{}
	for _, line := range lines(text) {
		words := strings.Fields(line)
		if len(words) != 2 {
			return nil, page.FieldError(alert.ObjectivesField,
				"%.80q is not a topic's name or pattern and a duration, like shop.* 30s", line)
		}
		d, err := time.ParseDuration(words[1])
		if words[1] == "0" {
			d, err = 0, nil
		}
		if err != nil || d < 0 {
			return nil, page.FieldError(alert.ObjectivesField,
				"%.40q of %.80q is not a duration, like 500ms or 30s; 0 switches the rule off", words[1], words[0])
		}
		if _, twice := objectives[words[0]]; twice {
			return nil, page.FieldError(alert.ObjectivesField, "%.80q is listed twice", words[0])
		}
		objectives[words[0]] = registry.Duration(d)
	}
	return objectives, nil
}

// objectivesText writes them as the form has them.
func objectivesText(objectives map[string]registry.Duration) string {
	var b strings.Builder
	for _, pattern := range slices.Sorted(maps.Keys(objectives)) {
		b.WriteString(pattern + " " + shortDuration(objectives[pattern].Std()) + "\n")
	}
	return b.String()
}

func readLimit(s *alert.Settings, name, text string) error {
	if d := durations(s)[name]; d != nil {
		v, err := time.ParseDuration(text)
		if text == "0" {
			v, err = 0, nil
		}
		if err != nil || v < 0 {
			return page.FieldError(name, "%.40q is not a duration, like 90s or 5m; 0 switches the rule off", text)
		}
		*d = registry.Duration(v)
		return nil
	}
	if n := counts(s)[name]; n != nil {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 {
			return page.FieldError(name, "%.40q is not a whole number; 0 switches the rule off", text)
		}
		*n = v
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return page.FieldError(name, "%.40q is not a number from 0 to 100", text)
	}
	s.Rules.FailingShare = v / 100
	return nil
}

// lines are the lines of a text with something on them.
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
