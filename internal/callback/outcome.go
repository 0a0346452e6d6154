package callback

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Class is the meaning of an outcome for the job.
type Class uint8

// The classes.
const (
	Success Class = iota // delivered
	Failure              // failed attempt
	Gone                 // 410: dead at once
	Snooze               // 202 with Retry-After: call again then, no attempt is counted
	Held                 // nothing was sent: Request.Begin returned an error
	Short                // no connection, because this host lacks descriptors or memory: not the endpoint's fault
)

// Outcome is the result of one call.
type Outcome struct {
	Class        Class
	Status       int           // HTTP status; 0 without an answer
	Reason       string        // ok, snooze, status, retry_if, or one of fail; bad_body, held
	Err          string        // for people; empty on success
	RetryAfter   time.Duration // of a 202, 429 or 503; at most a day
	Answer       []byte        // at most 64 KiB
	StartedAt    time.Time
	Took         time.Duration
	EndpointDown bool // no connection, timeout, TLS failure, 5xx or 429: not the job's fault
}

// ReasonRetryIf is the Reason when retry_if is true for the response.
const ReasonRetryIf = "retry_if"

// judge decides what a complete response means.
func (o *Outcome) judge(e *Endpoint, resp *http.Response) {
	if e.form != nil {
		e.form.Judge(o)
		return
	}
	o.EndpointDown = o.Status >= 500 || o.Status == http.StatusTooManyRequests
	o.Class, o.Reason = Failure, "status"
	switch {
	case o.Status == http.StatusGone:
		o.Class, o.Err = Gone, "the endpoint answered 410 Gone; the job will not be called again"
	case o.Status >= 300 && o.Status < 400:
		o.Err = fmt.Sprintf("the endpoint answered %d; redirects are not followed", o.Status)
	case o.Status < 200 || o.Status >= 300:
		o.Err = fmt.Sprintf("the endpoint answered %d %s", o.Status, http.StatusText(o.Status))
		if o.Status == http.StatusTooManyRequests || o.Status == http.StatusServiceUnavailable {
			o.RetryAfter = retryAfter(resp.Header, time.Now())
		}
	default:
		o.judgeSuccess(e, resp)
	}
}

func (o *Outcome) judgeSuccess(e *Endpoint, resp *http.Response) {
	if e.retryIf != nil {
		retry, err := e.retryIf.run(o.Status, resp.Header, o.Answer)
		if err != nil || retry {
			o.Reason, o.Err = ReasonRetryIf, "retry_if is true for the response"
			if err != nil {
				o.Err = "evaluate retry_if on the response: " + err.Error()
			}
			return
		}
	}
	o.Class, o.Reason = Success, "ok"
	if o.Status == http.StatusAccepted && resp.Header.Get("Retry-After") != "" {
		o.Class, o.Reason, o.RetryAfter = Snooze, "snooze", retryAfter(resp.Header, time.Now())
	}
}

const maxRetryAfter = 24 * time.Hour

// retryAfter parses the Retry-After header: seconds or a date (RFC 9110, 10.2.3).
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
		return min(max(0, time.Duration(min(s, int64(maxRetryAfter/time.Second)))*time.Second), maxRetryAfter)
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(0, t.Sub(now)), maxRetryAfter)
	}
	return 0
}

// fail sets the reason why there is no complete response: blocked, canceled, shortage, timeout, dns, refused, tls,
// reset or protocol.
func (o *Outcome) fail(err error, ttr time.Duration) {
	err = bare(err)
	o.Class, o.EndpointDown = Failure, true
	var blocked *blockedError
	var listener *listenerError
	var dns *net.DNSError
	var ne net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &blocked):
		o.Reason, o.Err, o.EndpointDown = "blocked", blocked.Error(), false
	case errors.As(err, &listener):
		o.Reason, o.Err, o.EndpointDown = "blocked", listener.Error(), false
	case errors.Is(err, context.Canceled):
		o.Reason, o.Err, o.EndpointDown = "canceled", "canceled by a shutdown", false
	case isShortage(err):
		o.Class, o.Reason, o.EndpointDown = Short, "shortage", false
		o.Err = "this host lacks file descriptors or memory for a connection: " + err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		o.Reason, o.Err = "timeout", fmt.Sprintf("timed out: no complete response within %s", ttr)
		if time.Since(o.StartedAt) < ttr {
			o.Err = "timed out: no connection within " + dialTimeout.String()
		}
	case errors.As(err, &dns):
		o.Reason, o.Err = "dns", "resolve host name: "+dns.Err
	case errors.Is(err, syscall.ECONNREFUSED):
		o.Reason, o.Err = "refused", "connection refused"
	case errors.As(err, &op) && op.Op == "dial":
		o.Reason, o.Err = "refused", "no connection: "+op.Err.Error()
	case isTLS(err):
		o.Reason, o.Err = "tls", err.Error()
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		o.Reason, o.Err = "reset", "connection closed before the response was complete"
	default:
		o.Reason, o.Err = "protocol", err.Error()
	}
}

// isShortage reports whether a connection failed because this host ran out of a resource. It also compares texts,
// because the resolver keeps only the text of such an error.
func isShortage(err error) bool {
	var dns *net.DNSError
	resolving := errors.As(err, &dns)
	for _, lacks := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, lacks) || resolving && strings.HasSuffix(dns.Err, lacks.Error()) {
			return true
		}
	}
	return false
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	var alert tls.AlertError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &record) || errors.As(err, &verify) || errors.As(err, &alert) || errors.As(err, &unknown) ||
		strings.Contains(err.Error(), "tls: ")
}
