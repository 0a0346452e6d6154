package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// load is a closed loop of requests: every connection sends one, waits for the answer, and sends the next.
type load struct {
	addr     string
	conns    int
	warmUp   time.Duration // not counted
	duration time.Duration
	total    int // if not 0, the number of requests over all connections, instead of duration and warm-up
	// source returns a connection's own supply of requests; the next call may overwrite the last result.
	source func(conn int) func() []byte
	// reply is used instead if a request depends on the previous answer, which is valid until reply returns.
	reply func(conn int) func(answer []byte) []byte
	// check examines an answer; nil requires any 2xx. The body is valid until check returns.
	check func(status int, body []byte) error
}

// loadResult is the result of a load.
type loadResult struct {
	Requests int     `json:"requests"`
	All      int     `json:"all"` // including the warm-up
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"per_second"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
}

// run runs the load. The first answer that check rejects ends it.
func (l load) run(ctx context.Context) (loadResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var quota *ticket
	if l.total > 0 {
		quota = &ticket{left: l.total}
	}
	took := make([][]time.Duration, l.conns)
	all := make([]int, l.conns)
	start := time.Now().Add(l.warmUp)
	var wg sync.WaitGroup
	for i := range l.conns {
		wg.Go(func() {
			var err error
			if took[i], all[i], err = l.connection(ctx, i, start, quota); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return loadResult{}, fmt.Errorf("load on %s: %w", l.addr, err)
	}
	seconds := l.duration.Seconds()
	if quota != nil {
		seconds = time.Since(start).Seconds()
	}
	r := summarize(slices.Concat(took...), seconds)
	for _, n := range all {
		r.All += n
	}
	return r, nil
}

func summarize(took []time.Duration, seconds float64) loadResult {
	slices.Sort(took)
	return loadResult{
		Requests: len(took), Seconds: seconds, Rate: float64(len(took)) / seconds,
		P50: ms(quantile(took, 0.5)), P99: ms(quantile(took, 0.99)), Max: ms(quantile(took, 1)),
	}
}

// ticket hands out the requests of a load with a total.
type ticket struct {
	mu   sync.Mutex
	left int
}

func (t *ticket) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == 0 {
		return false
	}
	t.left--
	return true
}

// connection sends requests one after the other. It returns the durations of those answered in the counted time, and
// the number of all answered ones.
func (l load) connection(
	ctx context.Context,
	n int,
	start time.Time,
	quota *ticket,
) (took []time.Duration, all int, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	w := wire{conn: conn, r: bufio.NewReaderSize(conn, 16<<10)}
	next := l.reply
	if next == nil {
		next = func(n int) func([]byte) []byte {
			source := l.source(n)
			return func([]byte) []byte { return source() }
		}
	}
	request, answer := next(n), []byte(nil)
	end := start.Add(l.duration)
	for quota == nil || quota.take() {
		sent := time.Now()
		status, body, err := w.roundTrip(request(answer))
		answer = body
		if err == nil {
			err = l.verify(status, body)
		}
		if err != nil {
			return nil, all, err
		}
		all++
		now := time.Now()
		if quota == nil && now.After(end) {
			break
		}
		if now.After(start) {
			took = append(took, now.Sub(sent))
		}
	}
	return took, all, nil
}

func (l load) verify(status int, body []byte) error {
	if status/100 != 2 {
		return fmt.Errorf("an answer of %d: %.300s", status, body)
	}
	if l.check == nil {
		return nil
	}
	return l.check(status, body)
}

// wire is one HTTP/1.1 connection without pipelining. It supports the parts of HTTP that Go's servers send.
type wire struct {
	conn net.Conn
	r    *bufio.Reader
	body []byte
}

func (w *wire) roundTrip(request []byte) (status int, body []byte, err error) {
	if _, err := w.conn.Write(request); err != nil {
		return 0, nil, err
	}
	line, err := w.r.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, nil, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, fmt.Errorf("status line %q", line)
	}
	length, err := w.headers()
	if err != nil {
		return 0, nil, err
	}
	if status == 204 {
		length = 0
	}
	body, err = w.readBody(length)
	return status, body, err
}

var (
	contentLength = []byte("content-length:")
	chunkedHeader = []byte("transfer-encoding:")
)

// chunked stands for the length of a chunked body.
const chunked = -1

// headers reads up to the empty line and returns the length of the body.
func (w *wire) headers() (length int, err error) {
	for {
		line, err := w.r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		switch {
		case len(line) <= 2:
			return length, nil
		case hasPrefixFold(line, contentLength):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):]))); err != nil {
				return 0, err
			}
		case hasPrefixFold(line, chunkedHeader):
			length = chunked
		}
	}
}

func hasPrefixFold(line, prefix []byte) bool {
	return len(line) >= len(prefix) && bytes.EqualFold(line[:len(prefix)], prefix)
}

func (w *wire) readBody(length int) ([]byte, error) {
	w.body = w.body[:0]
	if length != chunked {
		return w.body, w.append(length)
	}
	for {
		line, err := w.r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return nil, fmt.Errorf("chunk size %q", line)
		}
		if err := w.append(int(size)); err != nil {
			return nil, err
		}
		if _, err := w.r.Discard(len("\r\n")); err != nil {
			return nil, err
		}
		if size == 0 {
			return w.body, nil
		}
	}
}

func (w *wire) append(n int) error {
	if n < 0 {
		return errors.New("a negative length")
	}
	at := len(w.body)
	w.body = slices.Grow(w.body, n)[:at+n]
	_, err := io.ReadFull(w.r, w.body[at:])
	return err
}

// quantile returns a quantile of sorted values; 1 is the largest.
func quantile[T any](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
