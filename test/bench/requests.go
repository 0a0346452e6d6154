package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	bodySize = 64 // bytes of a job's body
	idSize   = 24 // bytes of a caller's id
)

// jobBody is a JSON object of bodySize bytes.
func jobBody(n int) string {
	head := `{"order":` + strconv.Itoa(n) + `,"do":"`
	return head + strings.Repeat("x", bodySize-len(head)-2) + `"}`
}

// jobID is an id of idSize bytes, as a caller would make from a key of its own.
func jobID(conn, n int) string { return fmt.Sprintf("order-%08d-%09d", conn, n) }

func post(path, token, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, token, len(body), body)
}

// singlePushes are pushes without an id, due between one and two hours from now: none is called back while the load
// runs. They are prepared, so that making them costs the generator nothing.
func singlePushes(topic, token string) func(conn int) func() []byte {
	return func(conn int) func() []byte {
		prepared := make([][]byte, 256)
		for i := range prepared {
			body := fmt.Sprintf(`{"body":%s,"delay":%d}`, jobBody(conn*len(prepared)+i), 3600+rand.IntN(3600))
			prepared[i] = post("/v1/topics/"+topic+"/jobs", token, body)
		}
		n := 0
		return func() []byte {
			n++
			return prepared[n%len(prepared)]
		}
	}
}

// batch says what the jobs of a batch push are like.
type batch struct {
	topic string
	// topics is over how many topics the jobs go round robin; 0: all to topic.
	topics int
	token  string
	size   int
	delay  func() time.Duration
	id     func(conn, n int, delay time.Duration) string // default: jobID; "" leaves it to the server
}

// source makes batches with ids of the caller's own, so every request is a new one.
func (b batch) source(conn int) func() []byte {
	n := 0
	return func() []byte {
		request := b.request(conn, n, b.size)
		n += b.size
		return request
	}
}

func (b batch) request(conn, first, size int) []byte {
	id := b.id
	if id == nil {
		id = func(conn, n int, _ time.Duration) string { return jobID(conn, n) }
	}
	var s strings.Builder
	s.Grow(size * (bodySize + idSize + 80))
	s.WriteString(`{"jobs":[`)
	for i := range size {
		if i > 0 {
			s.WriteByte(',')
		}
		delay := b.delay()
		topic := b.topic
		if b.topics > 0 {
			topic = manyTopic((conn*b.topics/batchConnections + first + i) % b.topics)
		}
		s.WriteString(`{"topic":"` + topic + `",`)
		if id := id(conn, first+i, delay); id != "" {
			s.WriteString(`"id":"` + id + `",`)
		}
		s.WriteString(`"delay":"` + delay.String() + `","body":`)
		s.WriteString(jobBody(first + i))
		s.WriteByte('}')
	}
	s.WriteString("]}")
	return post("/v1/jobs", b.token, s.String())
}

// between returns random whole milliseconds in [low, high).
func between(low, high time.Duration) func() time.Duration {
	return func() time.Duration {
		return low + time.Duration(rand.Int64N(int64((high-low)/time.Millisecond)))*time.Millisecond
	}
}
