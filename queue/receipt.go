package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// noted is a push whose job, if it was stored under an id that names its place, is noted under a receipt.
type noted struct {
	bucket      int
	name, token string
	position    int // of its arguments in the call
}

// undoNoted has removed what a call that failed may have stored under ids that nobody knows.
func (s *Shard) undoNoted(bucket int, r *receipt, pushes []Push, err error) {
	var un *UnavailableError
	if r.name == "" || !errors.As(err, &un) || !slices.Contains(doubtfulReasons, un.Reason) {
		return
	}
	for i := range pushes {
		if _, ok := nonceOf(&pushes[i]); ok {
			s.undo(&pushes[i], &noted{bucket, r.name, r.token(), 3 + 4*i})
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
	if !ok || len(list) < 6 {
		return "", nil
	}
	nonce, _ := nonceOf(p)
	for list = list[6:]; len(list) >= 15; list = list[15:] {
		if int(binary.BigEndian.Uint16([]byte(list))) == n.position {
			return placeID(int64(binary.BigEndian.Uint64([]byte("\x00"+list[2:9]))), string(nonce[:])), nil
		}
	}
	return "", nil
}
