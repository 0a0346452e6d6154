package phpdq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/registry"
)

// Topics is the part of the registry that this protocol needs.
type Topics interface {
	Snapshot() *registry.Snapshot
	Refresh(ctx context.Context) // reads changes made by other processes
}

// Options configure a Server.
type Options struct {
	Endpoint *gateway.Endpoint
	Jobs     gateway.Jobs
	Topics   Topics
	Healthy  func() error               // returns the journal's error, which makes every add fail
	Refused  func(topic, reason string) // counts an add that failed for that
	Zone     *time.Location             // time zone of the times in requests and answers
}

// Server answers clients of php-delayqueue.
type Server struct {
	Options
	now func() time.Time
}

// New returns a Server.
func New(o Options) *Server { return &Server{o, time.Now} }

// Serve serves l until ctx is done and then stops gracefully.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.Endpoint.TCP(ctx, l, s.serve)
}

// Limits of a connection. The client waits one second for an answer.
const (
	idleTimeout  = 5 * time.Minute // php-delayqueue closes older connections
	frameTimeout = 10 * time.Second
	headSize     = 4
	maxFrame     = 9999
)

// serve answers the requests of a connection in order.
func (s *Server) serve(ctx context.Context, c gateway.Conn) {
	for ctx.Err() == nil {
		frame, err := readFrame(c)
		if err != nil {
			return
		}
		more := s.serveOne(ctx, c, frame)
		if !c.End() || !more {
			return
		}
	}
}

var errFrame = errors.New("not a frame")

// readFrame waits for a request and reads it. A request begins with its first byte.
func readFrame(c gateway.Conn) ([]byte, error) {
	var head [headSize]byte
	_ = c.SetReadDeadline(time.Now().Add(idleTimeout))
	n, err := io.ReadAtLeast(c, head[:], 1)
	if err != nil {
		return nil, err
	}
	c.Begin()
	frame, err := readRest(c, head, n)
	if err != nil {
		c.End()
	}
	return frame, err
}

func readRest(c gateway.Conn, head [headSize]byte, n int) ([]byte, error) {
	_ = c.SetReadDeadline(time.Now().Add(frameTimeout))
	if _, err := io.ReadFull(c, head[n:]); err != nil {
		return nil, err
	}
	size, err := strconv.ParseUint(string(head[:]), 10, 16)
	if err != nil {
		return nil, errFrame
	}
	frame := make([]byte, size)
	_, err = io.ReadFull(c, frame)
	return frame, err
}

// serveOne answers a request, and reports whether the connection stays open.
func (s *Server) serveOne(ctx context.Context, c gateway.Conn, frame []byte) bool {
	if kind := jsontext.Value(frame).Kind(); kind != '{' && kind != '[' || !jsontext.Value(frame).IsValid(duplicates) {
		return false
	}
	var r request
	if err := json.Unmarshal(frame, &r, duplicates); err != nil {
		return true // a list, or a command that is not a string
	}
	handle := map[string]func(context.Context, *request) (answer, string){
		"add": s.add, "get": s.get, "del": s.del,
	}[r.Cmd]
	if handle == nil {
		return true
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), frameTimeout)
	defer cancel()
	a, result := handle(ctx, &r)
	s.Endpoint.Observe(r.Cmd, result, began)
	_, err := c.Write(a.frame())
	return err == nil
}

// duplicates are allowed, as in PHP, which takes the last one.
var duplicates = jsontext.AllowDuplicateNames(true)

// request is a client's request. Members are decoded leniently, because PHP has no static types.
type request struct {
	Cmd     string         `json:"cmd"`
	Topic   jsontext.Value `json:"topic"`
	ID      jsontext.Value `json:"id"`
	Body    jsontext.Value `json:"body"`
	FixTime jsontext.Value `json:"fix_time"`
}

// answer is the answer to a request. Without a job, its data is an empty list.
type answer struct {
	Code int            `json:"code"`
	Msg  string         `json:"msg"`
	Data jsontext.Value `json:"data"`
}

var (
	noData    = jsontext.Value("[]")
	succeeded = answer{1, "succ", noData}
	failed    = answer{0, "fail", noData}
)

// frame encodes an answer. It must be sent in one write: clients read the head, and then the rest in one read.
func (a answer) frame() []byte {
	b, err := json.Marshal(a, duplicates, jsontext.PreserveRawStrings(true))
	if err != nil || len(b) > maxFrame { // a body pushed through the API may be longer
		return failed.frame()
	}
	if escaped := ascii(b); len(escaped) <= maxFrame {
		b = escaped
	}
	return fmt.Appendf(nil, "%04d%s", len(b), b)
}

// ascii escapes JSON as PHP does. The Java client decodes an answer in pieces of 4,096 bytes, each in the character set
// of its machine, so it could not decode other characters reliably.
func ascii(b []byte) []byte {
	escaped := make([]byte, 0, len(b))
	for _, r := range string(b) {
		if r < utf8.RuneSelf {
			escaped = append(escaped, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	return escaped
}
