package queue

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A shard remembers finished jobs, so that people can ask when a job was delivered and what the endpoint answered. The
// script that ends a job's lease stores the finished job in the same step, and removes older ones to make room:
//
//   - The last jobs of a topic with RememberLast are in a list, o:TOPIC, without an index: a second list, on:TOPIC, has
//     four bytes of each locator, and Redis finds one of a thousand in ten microseconds. A bucket remembers a bounded
//     number of jobs of all such topics; those of the topic that has been quiet longest go first.
//   - The jobs of a topic that remembers for a duration are in pages, op:PAGE, and keep their locators, with a negative
//     number. So a push finds at no extra cost that its id exists. A page is removed when all its jobs are too old.
//
// When Redis is nearly full, no jobs are added and the oldest are removed.
//
// A finished job is stored as late(4, ms) took(4, 0.1 ms) status(2) attempts(2) extra(2), followed by the extra and the
// record of a live job. The extra, if any, is its earlier attempts as attempts.go writes them, a zero byte, and the
// endpoint's answer.

// RememberLast makes a shard remember a topic's last LastFinished jobs, and at most MaxLast of all such topics.
const (
	LastFinished = 1000
	MaxLast      = 100_000

	RememberLast = time.Duration(-1)
)

const (
	finishedLetter = "g"
	finishedHead   = 14

	maxFinishedAnswer = 256 // bytes
	maxEarlier        = 5   // attempts before the last one
	maxEarlierError   = 128 // bytes of each
)

// encodeRemember returns Remember as conf stores it.
func (c *TopicConf) encodeRemember() string {
	switch {
	case c.Remember > 0:
		return " " + strconv.FormatInt(max(1, c.Remember.Milliseconds()), 10)
	case c.Remember == RememberLast:
		return fmt.Sprintf(" -%d:%d", max(1, min(c.last, c.all)), c.all)
	}
	return ""
}

// finished returns a delivered job as it is to be remembered; empty if it is not.
func (x *Settlement) finished() []byte {
	if !x.Remember || x.Attempt == nil {
		return nil
	}
	j, a := &x.Lease.Job, x.Attempt
	extra := finishedExtra(j, a)
	b := make([]byte, 0, finishedHead+len(extra)+32+len(j.ID)+min(len(j.Body), longBody))
	// A job that is more than 49 days late gets a later due time here, so that its end stays right: how long the job is
	// remembered depends on it.
	due := max(j.DueAt.UnixMilli(), a.StartedAt-math.MaxUint32)
	b = binary.BigEndian.AppendUint32(b, clamp(float64(a.StartedAt-due)))
	b = binary.BigEndian.AppendUint32(b, clamp(a.TookMS*10))
	b = binary.BigEndian.AppendUint16(b, uint16(a.Status))
	b = binary.BigEndian.AppendUint16(b, uint16(min(j.Attempts+1, math.MaxUint16)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(extra)))
	b = append(b, extra...)
	b = appendUint48(appendUint48(b, due), j.CreatedAt.UnixMilli())
	b, _ = appendTail(b, j.push())
	return b
}

func clamp(x float64) uint32 { return uint32(min(max(x, 0), math.MaxUint32)) }

// rememberedAnswer returns the part of an endpoint's answer, or of a worker's result, that is remembered.
func rememberedAnswer(answer string) string {
	return strings.ToValidUTF8(answer[:min(len(answer), maxFinishedAnswer)], "")
}

func finishedExtra(j *Job, a *Attempt) []byte {
	answer := rememberedAnswer(a.Answer)
	if len(j.History) == 0 && answer == "" {
		return nil
	}
	var b []byte
	if len(j.History) > 0 {
		earlier := slices.Clone(j.History[max(0, len(j.History)-maxEarlier):])
		for i := range earlier {
			e := &earlier[i]
			e.Answer, e.Error = "", strings.ToValidUTF8(e.Error[:min(len(e.Error), maxEarlierError)], "")
		}
		b, _ = encodeAttempts(j.Attempts, 0, "", earlier) // numbers and texts: cannot fail
	}
	return append(append(b, 0), answer...)
}

// finished decodes a finished job as settlements and end.lua store it.
func (s *Shard) finished(topic, f string) (*Job, error) {
	broken := func(err error) error { return fmt.Errorf("read a finished job of %s: %w", topic, err) }
	if len(f) < finishedHead {
		return nil, broken(errRecord)
	}
	head := []byte(f[:finishedHead])
	end := finishedHead + int(binary.BigEndian.Uint16(head[12:]))
	if len(f) < end {
		return nil, broken(errRecord)
	}
	j := &Job{Topic: topic, Shard: s.name, State: Finished, ETag: etagOf(0, Finished, nil, f, "")}
	if err := decodeRecord(j, f[end:], ""); err != nil {
		return nil, broken(err)
	}
	j.BodyGone = f[end+12]&flagBodyKey != 0
	earlier, answer, _ := strings.Cut(f[finishedHead:end], "\x00")
	if err := decodeAttempts(j, earlier); err != nil {
		return nil, broken(err)
	}
	j.DeadReason = ""
	j.Attempts = int(binary.BigEndian.Uint16(head[10:]))
	started := j.DueAt.Add(time.Duration(binary.BigEndian.Uint32(head)) * time.Millisecond)
	took := time.Duration(binary.BigEndian.Uint32(head[4:])) * (time.Millisecond / 10)
	j.FinishedAt = started.Add(took)
	j.History = lastAttempts(append(j.History, Attempt{
		N: j.Attempts, StartedAt: started.UnixMilli(), TookMS: float64(took) / float64(time.Millisecond),
		Status: int(binary.BigEndian.Uint16(head[8:])), Answer: answer,
	}))
	return j, nil
}

// Late returns how long after its due time the last attempt of a finished job started.
func (j *Job) Late() time.Duration {
	if len(j.History) == 0 {
		return 0
	}
	return time.UnixMilli(j.History[len(j.History)-1].StartedAt).Sub(j.DueAt)
}

// recall returns the finished jobs of refs in a shard, nil for each that is not remembered. All refs must be of one
// bucket, and getStep at most.
func (s *Shard) recall(ctx context.Context, bucket int, refs ...Ref) ([]*Job, error) {
	return s.readJobs(ctx, bucket, "recall", refs)
}

// Recall returns a job as Get does, or else the finished one that is remembered.
func (q *Queue) Recall(ctx context.Context, topic, id string) (*Job, error) {
	j, err := q.Get(ctx, topic, id)
	if !errors.Is(err, ErrNotFound) {
		return j, err
	}
	last, missed := q.lastFinished(ctx, id, []string{topic})
	if last[topic] == nil {
		return nil, cmp.Or(missed, err)
	}
	return last[topic], nil
}

// lastFinished returns for each topic the job that finished last under an id, over all shards. With a *PartialError the
// jobs are from the shards that answered.
func (q *Queue) lastFinished(ctx context.Context, id string, topics []string) (map[string]*Job, error) {
	last := map[string]*Job{}
	err := q.eachTopic(topics, getStep, func(s *Shard, bucket int, some []string) error {
		jobs, err := s.recall(ctx, bucket, refsOf(id, some)...)
		for _, j := range jobs {
			if j != nil && (last[j.Topic] == nil || j.FinishedAt.After(last[j.Topic].FinishedAt)) {
				last[j.Topic] = j
			}
		}
		return err
	})
	return last, err
}

// finishedSteps bounds the calls of the script for one page of a list of finished jobs: a prefix may match few.
const finishedSteps = 100

// ListFinished returns up to limit finished jobs of a topic whose ids begin with a prefix, shard by shard, each shard's
// latest first, and the next cursor ("" at the end): there may be more even when these are fewer than limit.
func (q *Queue) ListFinished(
	ctx context.Context, topic, prefix, cursor string, limit int,
) ([]Job, string, error) {
	return q.list(Finished, cursor, limit, finishedSteps,
		func(s *Shard, inner string, limit int) ([]Job, string, error) {
			reply, err := s.list(ctx, s.bucketOf(topic), -1, "list", topic, string(Finished), inner, limit, prefix)
			if err != nil {
				return nil, "", err
			}
			return s.listed(topic, Finished, reply)
		})
}

// ErrBodyGone is the error of a finished job that cannot be pushed again, since its body is not remembered.
var ErrBodyGone = errors.New("the body was too long to be remembered")

// ErrAlive is the error of a job that cannot be pushed again, since it has not ended.
var ErrAlive = errors.New("the job has not ended")

// Resend pushes a finished job again under its id, due now. Errors: ErrNotFound, ErrAlive, ErrBodyGone,
// *UnavailableError.
func (q *Queue) Resend(ctx context.Context, topic, id string) (*Job, error) {
	j, err := q.Recall(ctx, topic, id)
	switch {
	case err != nil:
		return nil, err
	case j.State != Finished:
		return nil, fmt.Errorf("%s/%s is %s: %w", topic, id, j.State, ErrAlive)
	case j.BodyGone:
		return nil, fmt.Errorf("%s/%s: %w", topic, id, ErrBodyGone)
	}
	again := *j.push() // without its expiry, which has passed, or was meant for the first time
	again.ExpiresAt, again.OnDuplicate, again.Again = time.Time{}, Refuse, true
	r := q.Push(ctx, again)
	if errors.Is(r.Err, ErrDuplicate) {
		return nil, fmt.Errorf("%s/%s is %s: %w", topic, id, r.Job.State, ErrAlive)
	}
	return &r.Job, r.Err
}
