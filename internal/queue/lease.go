package queue

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

// ticket is the content of a worker's lease, so that any server finds the job: the shard, the job's topic and id, and
// the token that proves the lease. The other fields are for the journal when the lease ends.
type ticket struct {
	shard, topic, id string
	token            string
	taken            time.Time // by the shard's clock
	attempt          int
}

const ticketVersion = 1

// newToken makes a token that nobody can guess. It begins with the time when the lease began, in seconds; workers.lua
// reads it.
func newToken() string { return fmt.Sprintf("w%x-%s", time.Now().Unix(), rand.Text()) }

func (t *ticket) String() string {
	b := make([]byte, 1, 64+len(t.shard)+len(t.topic)+len(t.id))
	b[0] = ticketVersion
	for _, text := range []string{t.shard, t.topic, t.id, t.token} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	b = binary.AppendUvarint(b, uint64(t.taken.UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(b, uint64(t.attempt)))
}

// maxLease is the longest text of a lease.
const maxLease = 8 << 10

func parseTicket(lease string) (t ticket, err error) {
	b, err := base64.RawURLEncoding.DecodeString(lease)
	if err != nil || len(lease) > maxLease || len(b) < 1 || b[0] != ticketVersion {
		return t, fmt.Errorf("%.60q: %w", lease, ErrLease)
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
	t.shard, t.topic, t.id, t.token = text(), text(), text(), text()
	t.taken, t.attempt = time.UnixMilli(int64(number())).UTC(), int(number())
	if t.token == "" || t.topic == "" || t.id == "" || t.attempt <= 0 {
		return t, fmt.Errorf("%.60q: %w", lease, ErrLease)
	}
	return t, nil
}

// LeaseOf returns the job that a lease names. It does not ask a shard whether the lease still exists. Error: ErrLease.
func LeaseOf(lease string) (Ref, error) {
	t, err := parseTicket(lease)
	return Ref{t.topic, t.id}, err
}
