package pull

import (
	"fmt"
	"time"
)

// Limits bounds the topics that the workers of a process wait for at once. A topic that several workers wait for counts
// once. Zero fields are no limits.
type Limits struct {
	Token     int // of the workers with the same token
	Namespace int // of a namespace
	Gateway   int // of the workers of one protocol
}

// The keys of limits in the configuration.
const (
	PerRequest   = "pull.topics_per_request"
	perToken     = "pull.topics_per_token"
	perNamespace = "pull.topics_per_namespace"
	perGateway   = "pull.topics_per_gateway"
)

// LimitError refuses a request of a worker that names too many topics.
type LimitError struct {
	Key    string // of the limit in the configuration
	Detail string
	Limit  int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s; the limit is %d (%s): wait for fewer topics at once, or raise it", e.Detail, e.Limit, e.Key)
}

// CheckRequest returns a *LimitError if a request names more topics than the limit allows; 0: there is none.
func CheckRequest(topics, limit int) error {
	if limit <= 0 || topics <= limit {
		return nil
	}
	return &LimitError{PerRequest, fmt.Sprintf("%d topics in one request", topics), limit}
}

// limiter counts the topics that workers wait for. One that nobody waits for any more counts until Redis has forgotten
// it: otherwise workers that name other topics in every request could fill Redis.
type limiter struct {
	limits     Limits
	scopes     map[scope]map[string]int // workers by topic
	left, past []use                    // nobody waits any more, since this period and the one before
	began      time.Time                // of the period
}

// scope is what a limit applies to.
type scope struct{ key, of string }

// use is a topic that a worker waits for in a scope.
type use struct {
	scope
	topic string
}

func (l *limiter) limit(key string) int {
	switch key {
	case perToken:
		return l.limits.Token
	case perNamespace:
		return l.limits.Namespace
	}
	return l.limits.Gateway
}

// usesOf returns what a request counts for.
func usesOf(r *Request, gateway string, namespace func(topic string) string) (list []use) {
	token := scope{perToken, gateway + "/" + r.Token}
	for _, topic := range r.Topics {
		list = append(list, use{scope{perGateway, gateway}, topic})
		if r.Token != "" {
			list = append(list, use{token, topic})
		}
		if ns := namespace(topic); ns != "" {
			list = append(list, use{scope{perNamespace, ns}, topic})
		}
	}
	return list
}

// enter counts a request, or returns a *LimitError.
func (l *limiter) enter(uses []use) error {
	l.sweep(time.Now())
	more := map[scope]int{}
	for _, u := range uses {
		if _, known := l.scopes[u.scope][u.topic]; !known {
			more[u.scope]++
		}
	}
	for s, n := range more {
		limit := l.limit(s.key)
		if known := len(l.scopes[s]); limit > 0 && known+n > limit {
			detail := fmt.Sprintf("workers of %s wait for %d topics, and this request names %d others", s, known, n)
			return &LimitError{s.key, detail, limit}
		}
	}
	for _, u := range uses {
		if l.scopes[u.scope] == nil {
			l.scopes[u.scope] = map[string]int{}
		}
		l.scopes[u.scope][u.topic]++
	}
	return nil
}

func (s scope) String() string {
	switch s.key {
	case perToken:
		return "this token"
	case perNamespace:
		return "namespace " + s.of
	}
	return "this gateway"
}

func (l *limiter) leave(uses []use) {
	for _, u := range uses {
		if l.scopes[u.scope][u.topic]--; l.scopes[u.scope][u.topic] == 0 {
			l.left = append(l.left, u)
		}
	}
}

// sweep forgets topics of which it was reported to shards that nobody waits for them.
func (l *limiter) sweep(now time.Time) {
	if now.Sub(l.began) < reportEvery {
		return
	}
	for _, u := range l.past {
		if n, known := l.scopes[u.scope][u.topic]; known && n == 0 {
			delete(l.scopes[u.scope], u.topic)
		}
		if len(l.scopes[u.scope]) == 0 {
			delete(l.scopes, u.scope)
		}
	}
	l.past, l.left, l.began = l.left, nil, now
}
