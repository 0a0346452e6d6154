package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	// errUnknown is the error of a repeated call that finds nothing to do: the first one, which got no reply, may have
	// done it.
	errUnknown = errors.New("outcome unknown: connection lost before the reply")
	// ErrTooLate means that a script began, or would have begun, after its caller had given up.
	ErrTooLate = errors.New("the shard answered too late")
	ErrReply   = errors.New("the script's answer has an unexpected form")

	errNoReply = errors.New("sent without a reply") // it may have been carried out
	errNotSent = errors.New("not sent")
)

// refusals are the prefixes of errors of a server that has not run a script, and may soon.
var refusals = []string{
	"LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "READONLY", "MOVED", "ASK", "max number of clients",
}

// isRefused reports whether a script was not sent, or was refused before it ran, and may be accepted soon.
func isRefused(err error, sent bool) bool {
	if _, ok := errors.AsType[redis.Error](err); ok {
		return slices.ContainsFunc(refusals, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
	}
	return !sent && !errors.Is(err, redis.ErrClosed)
}

// withFate adds to an error of a command what is known of its fate.
func withFate(err error, sent bool) error {
	if _, answered := errors.AsType[redis.Error](err); answered {
		return err
	}
	if sent {
		return fmt.Errorf("%w: %w", errNoReply, err)
	}
	return fmt.Errorf("%w: %w", errNotSent, err)
}

// IsUnanswered reports whether a call that failed was sent: it may have been carried out.
func IsUnanswered(err error) bool {
	un, ok := errors.AsType[*UnavailableError](err)
	return ok && un.unanswered && !un.Stored
}

// isLost reports whether the connection of a call broke before the reply. A new one may work at once.
func isLost(err error) bool {
	un, ok := errors.AsType[*UnavailableError](err)
	return ok && un.Reason == connection && un.unanswered
}

// connection is the reason for a call whose connection broke.
const connection = "connection"

// Failed classifies an error of a command that began at a time: the caller's context, the state of the bucket, or the
// connection to it. A deadline of the caller says nothing about the bucket, unless it left most of a command's time.
func (b *Bucket) Failed(ctx context.Context, began time.Time, err error) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("shard %s: %w", b.shard.name, ctx.Err())
	}
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) && time.Since(began) < b.shard.timeout*3/4 {
		return b.Unavailable("timeout", err)
	}
	if errors.Is(err, ErrTooLate) { // it does answer
		return b.Unavailable("timeout", err)
	}
	reason := reasonOf(err)
	if reason == connection && errors.Is(err, errNotSent) { // a new connection does not work either
		reason = "down"
	}
	switch reason {
	case "full", Absent, connection:
		return b.Unavailable(reason, err)
	case "script":
		return fmt.Errorf("shard %s: %w", b.shard.name, err)
	}
	b.markDown(err)
	return b.Unavailable(reason, err)
}

// Unavailable returns the error of a call that a reason prevents; it says when to try again.
func (b *Bucket) Unavailable(reason string, err error) *UnavailableError {
	retry := time.Second
	if reason == "full" {
		retry = 5 * time.Second
	}
	return &UnavailableError{
		Reason: reason, RetryAfter: retry, Err: fmt.Errorf("shard %s: %w", b.shard.name, err),
		unanswered: errors.Is(err, errNoReply) || errors.Is(err, errUnknown),
	}
}

// unknown is the error of a doubtful call that found nothing to do.
func (b *Bucket) unknown() error { return b.Unavailable(connection, errUnknown) }

// reasonOf returns the reason for UnavailableError that an error of Redis or of the connection means.
func reasonOf(err error) string {
	var ne net.Error
	var same *SameRedisError
	switch {
	case errors.As(err, &same):
		return "duplicate"
	case errors.Is(err, ErrFormat):
		return "format"
	case redis.HasErrorPrefix(err, "OOM"):
		return "full"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return connection
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, redis.ErrPoolTimeout):
		return "timeout"
	case redis.HasErrorPrefix(err, "MISCONF"):
		return "disk"
	case redis.HasErrorPrefix(err, "READONLY"), redis.HasErrorPrefix(err, "NOREPLICAS"):
		return "readonly"
	case redis.HasErrorPrefix(err, "LOADING"):
		return "loading"
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"), Forbidden(err):
		return "password"
	case redis.HasErrorPrefix(err, "CLUSTERDOWN"), redis.HasErrorPrefix(err, "MASTERDOWN"),
		redis.HasErrorPrefix(err, "TRYAGAIN"), redis.HasErrorPrefix(err, "NOBUCKET"),
		// redirected more often than go-redis follows
		redis.HasErrorPrefix(err, "ASK"), redis.HasErrorPrefix(err, "MOVED"):
		return "cluster"
	case redis.HasErrorPrefix(err, "NOTCOMPARED"):
		return ReasonComparing
	case redis.HasErrorPrefix(err, "ABSENT"):
		return Absent
	}
	var re redis.Error
	if errors.As(err, &re) && !strings.Contains(err.Error(), "redis: ") {
		return "script"
	}
	return "down"
}

// UnavailableOnly returns err if it is an *UnavailableError, else nil.
func UnavailableOnly(err error) error {
	if _, ok := errors.AsType[*UnavailableError](err); ok {
		return err
	}
	return nil
}
