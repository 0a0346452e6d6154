package store

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ErrLease is the error of a lease that is over, or that never existed.
var ErrLease = errors.New("lease expired or already ended")

// Lease is the right to a running job until the lease ends. Its text has all of it, so any server finds the job.
type Lease struct {
	Ref
	Shard   string
	Token   string    // proves the lease
	Taken   time.Time // by the shard's clock
	Attempt int       // counted from 1
}

const leaseVersion = 1

// NewToken makes a token that nobody can guess. It begins with the time when the lease began, in seconds; workers.lua
// reads it.
func NewToken() string { return fmt.Sprintf("w%x-%s", time.Now().Unix(), rand.Text()) }

// String returns the lease as workers get it.
func (l *Lease) String() string {
	b := make([]byte, 1, 64+len(l.Shard)+len(l.Topic)+len(l.ID))
	b[0] = leaseVersion
	for _, text := range []string{l.Shard, l.Topic, l.ID, l.Token} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	b = binary.AppendUvarint(b, uint64(l.Taken.UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(b, uint64(l.Attempt)))
}

// maxLease is the longest text of a lease.
const maxLease = 8 << 10

// ParseLease reads the text of a lease. It does not ask a shard whether the lease still exists. Error: ErrLease.
func ParseLease(lease string) (*Lease, error) {
	b, err := base64.RawURLEncoding.DecodeString(lease)
	if err != nil || len(lease) > maxLease || len(b) < 1 || b[0] != leaseVersion {
		return nil, fmt.Errorf("%.60q: %w", lease, ErrLease)
	}
	b = b[1:]
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			b = nil
			return 0
		}
		b = b[size:]
		return n
	}
	text := func() string {
		n := number()
		if n > uint64(len(b)) {
			b = nil
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	l := &Lease{}
	l.Shard, l.Topic, l.ID, l.Token = text(), text(), text(), text()
	l.Taken, l.Attempt = time.UnixMilli(int64(number())).UTC(), int(number())
	if l.Token == "" || l.Topic == "" || l.ID == "" || l.Attempt <= 0 {
		return nil, fmt.Errorf("%.60q: %w", lease, ErrLease)
	}
	return l, nil
}
