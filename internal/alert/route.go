package alert

import (
	"net/mail"
	"slices"
	"strings"

	"github.com/wakecall/wakecall/internal/registry"
)

// Route selects the alerts that a recipient receives: those of a severity or above, optionally restricted to topics
// with certain names or owners. Its text form separates the parts by spaces: critical shop.* owner=payments.
type Route struct {
	Severity string   // empty: warning
	Topics   []string // patterns
	Owners   []string
}

const ownerWord = "owner="

func parseRoute(words []string) (r Route) {
	for _, w := range words {
		owner, isOwner := strings.CutPrefix(w, ownerWord)
		switch {
		case rank(w) >= 0:
			r.Severity = w
		case isOwner:
			r.Owners = append(r.Owners, owner)
		default:
			r.Topics = append(r.Topics, w)
		}
	}
	return r
}

func (r Route) words() (words []string) {
	if r.Severity != "" {
		words = append(words, r.Severity)
	}
	words = append(words, r.Topics...)
	for _, o := range r.Owners {
		words = append(words, ownerWord+o)
	}
	return words
}

// MarshalText returns the route as users type it.
func (r Route) MarshalText() ([]byte, error) { return []byte(strings.Join(r.words(), " ")), nil }

// UnmarshalText parses a route. Settings.Validate reports its errors.
func (r *Route) UnmarshalText(text []byte) error {
	*r = parseRoute(strings.Fields(string(text)))
	return nil
}

// wants reports whether the route selects an alert. owner is the owner of the alert's topic.
func (r Route) wants(a *Alert, owner string) bool {
	if rank(a.Severity) < max(rank(r.Severity), rank(Warning)) && r.Severity != Info {
		return false
	}
	if len(r.Topics)+len(r.Owners) == 0 {
		return true
	}
	return a.Topic != "" && (slices.Contains(r.Owners, owner) ||
		slices.ContainsFunc(r.Topics, func(pattern string) bool { return registry.MatchesPattern(pattern, a.Topic) }))
}

func (r Route) validate(field string) error {
	for _, pattern := range r.Topics {
		if registry.ValidTopicPattern(pattern) != nil {
			return registry.Malformed(field, "field.route", pattern)
		}
	}
	return nil
}

// Recipient is a mail address and the alerts that it receives. Its text form is the address followed by the route:
// "ops@example.com critical shop.*".
type Recipient struct {
	Address string
	Route
}

// MarshalText returns the recipient as users type it.
func (r Recipient) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String returns the recipient as users type it.
func (r Recipient) String() string {
	return strings.Join(append([]string{r.Address}, r.words()...), " ")
}

// UnmarshalText parses a recipient. Settings.Validate reports its errors. A display name may precede the address, as in
// mails.
func (r *Recipient) UnmarshalText(text []byte) error {
	address, route, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if named, rest, ok := strings.Cut(string(text), ">"); ok {
		address, route = strings.TrimSpace(named)+">", rest
	}
	r.Address, r.Route = address, parseRoute(strings.Fields(route))
	return nil
}

func (r Recipient) validate() error {
	if _, err := mail.ParseAddress(r.Address); err != nil {
		return registry.Malformed("recipients", "field.email", r.Address)
	}
	return r.Route.validate("recipients")
}
