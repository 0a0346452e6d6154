package harness

import (
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Status answers with a status, and headers given as pairs of name and value.
func Status(code int, headers ...string) Behaviour {
	return Text(code, "", headers...)
}

// Text answers with a status and a body.
func Text(code int, body string, headers ...string) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ Call) int {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body) // the caller may have disconnected
		return code
	}
}

// FirstCalls behaves in one way for the first n calls of each job, and in another from then on.
func FirstCalls(n int, first, then Behaviour) Behaviour {
	var mu sync.Mutex
	seen := map[Key]int{}
	return func(w http.ResponseWriter, r *http.Request, c Call) int {
		mu.Lock()
		seen[c.Key]++
		early := seen[c.Key] <= n
		mu.Unlock()
		if early {
			return first(w, r, c)
		}
		return then(w, r, c)
	}
}

// Slow answers 200 after a time.
func Slow(d time.Duration) Behaviour {
	return func(_ http.ResponseWriter, r *http.Request, _ Call) int {
		select {
		case <-time.After(d):
			return http.StatusOK
		case <-r.Context().Done():
			return 0
		}
	}
}

// Hang never answers: it holds the call until the caller hangs up.
func Hang() Behaviour {
	return func(_ http.ResponseWriter, r *http.Request, _ Call) int { <-r.Context().Done(); return 0 }
}

// Gate holds calls until it is opened, then answers them with 200.
type Gate struct {
	open chan struct{}
	once sync.Once
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{open: make(chan struct{})} }

// Open lets all calls pass, waiting and future ones.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// Hold is the gate's behaviour.
func (g *Gate) Hold(_ http.ResponseWriter, r *http.Request, _ Call) int {
	select {
	case <-g.open:
		return http.StatusOK
	case <-r.Context().Done():
		return 0
	}
}

// Drip sends headers at once and then a byte a second, forever.
func Drip() Behaviour {
	return func(w http.ResponseWriter, r *http.Request, _ Call) int {
		w.WriteHeader(http.StatusOK)
		flush := http.NewResponseController(w)
		for {
			if _, err := w.Write([]byte{'.'}); err != nil || flush.Flush() != nil {
				return http.StatusOK
			}
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return http.StatusOK
			}
		}
	}
}

// Huge answers 200 with size bytes, as fast as they are read, and reports how many were.
func Huge(size int64, taken func(int64)) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ Call) int {
		chunk := make([]byte, 1<<16)
		var sent int64
		for sent < size {
			n, err := w.Write(chunk)
			sent += int64(n)
			if err != nil {
				break
			}
		}
		taken(sent)
		return http.StatusOK
	}
}

// Reset cuts the connection with a TCP reset instead of an answer.
func Reset() Behaviour {
	return raw(func(conn *net.TCPConn) {
		_ = conn.SetLinger(0) // makes Close send a reset
	})
}

// Garbage answers with bytes that are not HTTP.
func Garbage() Behaviour {
	return raw(func(conn *net.TCPConn) {
		_, _ = conn.Write([]byte("\x00\xff\x16 this is not HTTP\r\n\r\n\x01\x02"))
	})
}

// HalfAnswer promises more bytes than it sends, and hangs up.
func HalfAnswer() Behaviour {
	return raw(func(conn *net.TCPConn) {
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this"))
	})
}

// Redirect redirects the caller.
func Redirect(to string) Behaviour { return Status(http.StatusFound, "Location", to) }

func raw(do func(*net.TCPConn)) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ Call) int {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err) // only HTTP/1.1 is used here
		}
		defer conn.Close()
		do(conn.(*net.TCPConn))
		return notHTTP
	}
}
