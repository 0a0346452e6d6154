package store

import (
	"context"
	"fmt"
)

const takenByIDHead = 2 // length of the head of takebyid.lua's answer

// TakeByID returns nil when the bucket has no such job that can be taken.
func (b *Bucket) TakeByID(ctx context.Context, topic, id, token string) (*Job, error) {
	v, err := b.CallList(ctx, -1, takeByIDScript, topic, id, token)
	if err != nil || len(v) == takenByIDHead {
		return nil, err
	}
	if len(v) != takenByIDHead+reservedJob {
		return nil, fmt.Errorf("take %s/%s: %w", topic, id, ErrReply)
	}
	job := b.leased(v[takenByIDHead:], token, micros(v[0]))
	if job == nil {
		return nil, fmt.Errorf("take %s/%s: %w", topic, id, ErrRecord)
	}
	return job, nil
}
