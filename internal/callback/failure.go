package callback

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Reason returns the reason why a connection failed, as in fail.
func Reason(err error) string {
	var o Outcome
	o.fail(err, 0)
	return o.Reason
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

// bare returns err without the URL that net/http adds to it, because its query may contain secrets.
func bare(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}
