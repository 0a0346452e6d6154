package registry

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"github.com/wakecall/wakecall/conf/address"
)

// A topic's job_urls are patterns of the URLs that its jobs may have instead of callback_url:
//
//	https://*.shop.example/hooks/
//
// Scheme and port are equal. "*" is one whole label, never one of the registrable domain. The path is that of the
// pattern or below it, compared by whole segments after decoding.

const maxJobURLs = 32

// anyLabel is how a "*" is read where a host has labels. It is no public suffix.
const anyLabel = "wakecall-any-label"

// hasOwnCallbacks reports whether the topic's jobs are called, and in Wakecall's own dialect.
func (t *Topic) hasOwnCallbacks() bool { return t.Delivery != DeliveryPull && t.Dialect == DialectOwn }

func (t *Topic) validJobURLs() error {
	const field = "job_urls"
	switch {
	case len(t.JobURLs) == 0:
		return nil
	case len(t.JobURLs) > maxJobURLs:
		return OutOfRange(field, "field.too_many", len(t.JobURLs), maxJobURLs)
	case !t.hasOwnCallbacks():
		return OutOfRange(field, "field.only_called")
	}
	for _, pattern := range t.JobURLs {
		if err := validPattern(field, pattern); err != nil {
			return err
		}
	}
	return nil
}

func (t *Topic) validCloudEvents() error {
	if t.CloudEvents && !t.hasOwnCallbacks() {
		return OutOfRange("cloudevents", "field.only_called")
	}
	return nil
}

func validPattern(field, pattern string) error {
	readable := pattern
	if !plainASCII(pattern) { // "*" is no label that has a form in ASCII
		readable = strings.ReplaceAll(pattern, "*", anyLabel)
	}
	if err := validURL(field, readable); err != nil {
		return err
	}
	u, err := url.Parse(pattern)
	if err != nil || u.RawQuery != "" || u.ForceQuery || leavesPath(u.Path) || strings.Contains(u.Path, "*") {
		return Malformed(field, "field.job_url_pattern", pattern)
	}
	labels := hostLabels(u)
	for _, label := range labels {
		if label != "*" && strings.Contains(label, "*") {
			return Malformed(field, "field.job_url_label", pattern)
		}
	}
	host := strings.Split(strings.ReplaceAll(strings.Join(labels, "."), "*", anyLabel), ".")
	if slices.Contains(labels, "*") && !spares(labels, host) {
		return OutOfRange(field, "field.job_url_domain", pattern)
	}
	return nil
}

// JobURL returns the URL of a job in the form in which it is called, if the topic allows it. Its error is a *FieldError
// about url.
func (t *Topic) JobURL(text string) (string, error) {
	const field = "url"
	if !t.hasOwnCallbacks() {
		return "", OutOfRange(field, "field.only_called")
	}
	if wrong, ok := errors.AsType[*FieldError](validURL(field, text)); ok {
		return "", &FieldError{Message: wrong.Message, Field: field, OutOfRange: true}
	}
	text = sentURL(text)
	u, err := url.Parse(text)
	allowed := func(pattern string) bool { return allows(pattern, u) }
	if err == nil && !leavesPath(u.Path) && slices.ContainsFunc(t.JobURLs, allowed) {
		return text, nil
	}
	shown, _, _ := strings.Cut(text, "?") // the query may hold secrets
	return "", OutOfRange(field, "field.job_url", shown)
}

// allows reports whether a valid pattern allows a URL.
func allows(pattern string, u *url.URL) bool {
	p, err := url.Parse(pattern)
	if err != nil || p.Scheme != u.Scheme || address.Port(p) != address.Port(u) || !within(p.Path, u.Path) {
		return false
	}
	wanted, labels := hostLabels(p), hostLabels(u)
	if !slices.EqualFunc(wanted, labels, func(want, label string) bool {
		return want == label || want == "*" && label != ""
	}) {
		return false
	}
	return !slices.Contains(wanted, "*") || spares(wanted, labels)
}

// spares reports whether no "*" of a pattern is one of the labels of a host's registrable domain.
func spares(pattern, host []string) bool {
	domain, err := publicsuffix.EffectiveTLDPlusOne(strings.Join(host, "."))
	if err != nil || strings.Trim(host[len(host)-1], "0123456789") == "" { // an IPv4 address
		return false
	}
	own := len(host) - strings.Count(domain, ".") - 1
	return own >= 0 && !slices.Contains(pattern[own:], "*")
}

// hostLabels returns the labels of a URL's host as DNS has them. An IP address is one label.
func hostLabels(u *url.URL) []string {
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		return []string{host}
	}
	labels := strings.Split(host, ".")
	for i, label := range labels {
		if ascii, err := idna.Lookup.ToASCII(label); err == nil {
			labels[i] = ascii
		}
	}
	return labels
}

// within reports whether a decoded path is that of a pattern, or below it.
func within(pattern, path string) bool {
	wanted, segments := strings.Split(pattern, "/"), strings.Split(cmp.Or(path, "/"), "/")
	if last := len(wanted) - 1; wanted[last] == "" && last > 0 { // what is below a directory
		wanted = wanted[:last]
		if len(segments) == last {
			return false
		}
	}
	return pattern == "" || len(segments) >= len(wanted) && slices.Equal(segments[:len(wanted)], wanted)
}

// leavesPath reports whether a server may find ".." in a decoded path: some take a backslash for a slash, decode twice,
// or ignore what follows a semicolon.
func leavesPath(path string) bool {
	for range 2 {
		for segment := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
			if name, _, _ := strings.Cut(segment, ";"); name == ".." {
				return true
			}
		}
		path, _ = url.PathUnescape(path) // "" if it cannot be decoded a second time
	}
	return false
}
