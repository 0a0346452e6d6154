package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// a:PAGE stores "made;snoozes;reason;history" for each job that has had an attempt. The history is JSON, which only
// this file reads and writes. An expired lease is an attempt as well: the scripts count it in made and append its
// number and time to the reason, "reason@0000000003:1760900291309", because they know nothing else about it. The next
// settlement adds it to the history.

// expiredLen is the length of one expired lease after the reason.
const expiredLen = len("@0000000003:1760900291309")

// expiredError is the error of an attempt whose lease expired.
const expiredError = "no outcome is known: the lease expired"

// decodeAttempts decodes a job's entry in a:PAGE into j; "" means no attempts.
func decodeAttempts(j *Job, s string) error {
	if s == "" {
		return nil
	}
	part := strings.SplitN(s, ";", 4)
	if len(part) != 4 {
		return fmt.Errorf("attempts %.40q: %w", s, errRecord)
	}
	j.Attempts, _ = strconv.Atoi(part[0])
	j.Snoozes, _ = strconv.Atoi(part[1])
	if err := json.Unmarshal([]byte(part[3]), &j.History); err != nil {
		return fmt.Errorf("attempts %.40q: %w", s, err)
	}
	var expired []Attempt
	j.DeadReason, expired = decodeReason(part[2])
	j.History = lastAttempts(append(j.History, expired...))
	return nil
}

// decodeReason separates a reason from the expired leases after it.
func decodeReason(s string) (reason string, expired []Attempt) {
	for at := len(s) - expiredLen; at >= 0 && s[at] == '@'; at -= expiredLen {
		number, ms, _ := strings.Cut(s[at+1:], ":")
		n, errN := strconv.Atoi(number)
		started, errMS := strconv.ParseInt(ms, 10, 64)
		if errN != nil || errMS != nil {
			break
		}
		expired = append([]Attempt{{N: n, StartedAt: started, Error: expiredError}}, expired...)
		s = s[:at]
	}
	return s, expired
}

// lastAttempts returns the last HistoryLimit attempts.
func lastAttempts(history []Attempt) []Attempt {
	return history[max(0, len(history)-HistoryLimit):]
}

// settledAttempts returns a job's entry in a:PAGE after a settlement.
func settledAttempts(s *Settlement) ([]byte, error) {
	j := &s.Lease.Job
	made, snoozes, history := j.Attempts, j.Snoozes, j.History
	switch s.Verdict {
	case Snooze:
		snoozes++
	case Retry, Bury:
		made++
		snoozes = 0
	}
	if s.Attempt != nil {
		a := *s.Attempt
		a.N = j.Attempts + 1
		history = append(slices.Clip(history), a)
	}
	b, err := encodeAttempts(made, snoozes, s.Reason, history)
	if err != nil {
		return nil, fmt.Errorf("encode the attempts of %s/%s: %w", j.Topic, j.ID, err)
	}
	return b, nil
}

// encodeAttempts is the inverse of decodeAttempts.
func encodeAttempts(made, snoozes int, reason string, history []Attempt) ([]byte, error) {
	if history == nil {
		history = []Attempt{}
	}
	js, err := json.Marshal(lastAttempts(history))
	return append(fmt.Appendf(nil, "%d;%d;%s;", made, snoozes, strings.ReplaceAll(reason, ";", ",")), js...), err
}
