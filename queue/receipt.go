package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// An id that names a place is known to nobody when the answer to its push is lost. So the push script notes under the call's receipt where it
// stored such jobs. The same call made again returns them; and when the call fails for good, and the push was answered with an error or went
// to another shard, the copy that nobody knows is removed as soon as the shard answers. A receipt is used by one call at a time, over and over,
// and not any more once a call has failed or was made twice, so that its note stays there, for a day.
type receipt struct {
	name  string
	calls uint64
}

// receipt is one for a call that may have ids made; of other calls it is empty.
func (s *Shard) receipt(pushes []Push) *receipt {
	if !slices.ContainsFunc(pushes, func(p Push) bool { return p.Fresh }) {
		return &receipt{}
	}
	s.receiptMu.Lock()
	defer s.receiptMu.Unlock()
	if n := len(s.receipts); n > 0 {
		r := s.receipts[n-1]
		s.receipts = s.receipts[:n-1]
		r.calls++
		return r
	}
	s.receiptN++
	return &receipt{name: s.pusher + "." + strconv.Itoa(s.receiptN)}
}

func (s *Shard) keepReceipt(r *receipt) {
	if r.name == "" {
		return
	}
	s.receiptMu.Lock()
	s.receipts = append(s.receipts, r)
	s.receiptMu.Unlock()
}

func (r *receipt) token() string { return strconv.FormatUint(r.calls, 36) }

// A note is the creation of its jobs (6 bytes), and for each its number in the call (2 bytes) and reference (7).
const (
	noteHead = 6
	noteLen  = 9
)

// noted is a push whose job, if it was stored under an id that names its place, is noted under a receipt.
type noted struct {
	bucket      int
	name, token string
	number      int // in the call
}

// undoNoted has removed what a call that failed may have stored under ids that nobody knows.
func (s *Shard) undoNoted(bucket int, r *receipt, pushes []Push, err error) {
	var un *UnavailableError
	if r.name == "" || !errors.As(err, &un) || !slices.Contains(doubtfulReasons, un.Reason) {
		return
	}
	for i := range pushes {
		if _, ok := nonceOf(&pushes[i]); ok {
			s.undo(&pushes[i], &noted{bucket, r.name, r.token(), i + 1})
		}
	}
}

// idOf is the id under which a push was stored by the call of its receipt, "" when it was not, or under the push's own.
func (s *Shard) idOf(ctx context.Context, p *Push, n *noted) (string, error) {
	note, err := s.client.Get(ctx, prefix(n.bucket)+"w:"+n.name).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read a receipt of shard %s: %w", s.name, err)
	}
	list, ok := strings.CutPrefix(note, n.token+" ")
	if !ok {
		return "", nil
	}
	_, refs, err := readNote(list)
	if err != nil {
		return "", nil // it tells of nothing
	}
	nonce, _ := nonceOf(p)
	for number, ref := range refs {
		if number == n.number {
			return placeID(ref, string(nonce[:])), nil
		}
	}
	return "", nil
}

// readNote is when the jobs of a note were stored, and their references by their numbers in the call.
func readNote(note string) (created time.Time, refs iter.Seq2[int, int64], err error) {
	if len(note)%noteLen != noteHead {
		return created, nil, errReply
	}
	return time.UnixMilli(uint48(note)).UTC(), func(yield func(int, int64) bool) {
		for list := note[noteHead:]; list != ""; list = list[noteLen:] {
			if !yield(int(list[0])<<8|int(list[1]), int64(list[2])<<48|uint48(list[3:])) {
				return
			}
		}
	}, nil
}

// named fills in what was stored under ids that name its place.
func (s *Shard) named(pushes []Push, note string, results []Result) error {
	if note == "" {
		return nil
	}
	created, refs, err := readNote(note)
	if err != nil {
		return err
	}
	for number, ref := range refs {
		if number < 1 || number > len(pushes) {
			return errReply
		}
		p := &pushes[number-1]
		nonce, _ := nonceOf(p)
		job := &results[number-1].Job
		*job = s.fresh(p, dueAt(p, created), created)
		job.ID = placeID(ref, string(nonce[:]))
	}
	return nil
}
