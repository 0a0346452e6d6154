package queue

import (
	"strconv"
	"time"
)

// found is a job in the answer of reserve.lua.
type found struct {
	topic          string
	ref            int64
	ends           time.Time // of its lease
	record         string
	body, attempts string // where it has a body key, or attempts
}

const (
	reservedHead = 4 // what begins the answer
	runHead      = 3 // what begins a run of jobs
)

// foundIn reads the jobs of an answer; not ok when it is of another form.
func foundIn(reply []any) (jobs []found, ok bool) {
	for rest := reply[reservedHead:]; len(rest) > 0; {
		if len(rest) < runHead {
			return nil, false
		}
		topic, _ := rest[0].(string)
		ends := millis(rest[1])
		n, _ := rest[2].(int64)
		if rest = rest[runHead:]; n < 1 || n > int64(len(rest)/2) {
			return nil, false
		}
		for ; n > 0; n, rest = n-1, rest[2:] {
			record, _ := rest[1].(string)
			jobs = append(jobs, found{topic: topic, ref: refOf(rest[0]), ends: ends, record: record})
		}
	}
	others, _ := reply[reservedHead-1].([]any)
	for ; len(others) >= 3; others = others[3:] {
		number, _ := others[0].(int64)
		if number < 1 || number > int64(len(jobs)) {
			return nil, false
		}
		j := &jobs[number-1]
		j.body, _ = others[1].(string)
		j.attempts, _ = others[2].(string)
	}
	return jobs, true
}

func refOf(v any) int64 {
	s, _ := v.(string)
	ref, _ := strconv.ParseInt(s, 10, 64) // 0 is no job's
	return ref
}
