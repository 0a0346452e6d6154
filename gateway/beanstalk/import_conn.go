package beanstalk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/gateway/importer"
)

// oldConn is an import's connection to a beanstalkd. It writes several requests together and then reads their replies.
type oldConn struct {
	c      net.Conn
	r      *bufio.Reader
	spent  int  // bytes of the replies to the current requests
	failed bool // a reply is missing or was not the expected one
}

// Timeouts for connecting, and for the replies to requests sent together.
const (
	connectTimeout = 5 * time.Second
	answerTimeout  = 30 * time.Second
)

func connect(ctx context.Context, addr string) (*oldConn, error) {
	d := net.Dialer{Timeout: connectTimeout}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to beanstalkd: %w", err)
	}
	return &oldConn{c: c, r: bufio.NewReader(c)}, nil
}

// reply is a reply: its words and its body.
type reply struct {
	words []string
	body  []byte
}

func (r *reply) is(word string) bool { return r.words[0] == word }

// id returns the first argument as an id.
func (r *reply) id() uint64 {
	if len(r.words) < 2 {
		return 0
	}
	id, _ := strconv.ParseUint(r.words[1], 10, 64)
	return id
}

// number returns a value of a YAML body.
func (r *reply) number(key string) uint64 {
	n, _ := strconv.ParseUint(r.text(key), 10, 64)
	return n
}

func (r *reply) text(key string) string {
	for line := range strings.Lines(string(r.body)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name == key {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// list returns the items of a YAML body that is a list.
func (r *reply) list() (items []string) {
	for line := range strings.Lines(string(r.body)) {
		if item, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			items = append(items, strings.Trim(item, `"`))
		}
	}
	return items
}

// ask sends requests and reads their replies.
func (b *oldConn) ask(requests ...string) ([]reply, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	_ = b.c.SetDeadline(time.Now().Add(answerTimeout))
	b.spent = 0
	sent := make(chan error, 1)
	go func() { // beanstalkd stops reading while its replies are not read
		_, err := io.WriteString(b.c, strings.Join(requests, "\r\n")+"\r\n")
		sent <- err
	}()
	replies := make([]reply, 0, len(requests))
	var err error
	for range requests {
		var r reply
		if r, err = b.read(); err != nil {
			_ = b.c.Close() // ends the write
			break
		}
		replies = append(replies, r)
	}
	if err = errors.Join(err, <-sent); err != nil {
		b.failed = true
		return nil, fmt.Errorf("send to beanstalkd: %w", err)
	}
	return replies, nil
}

// one sends one request. The reply must begin with want.
func (b *oldConn) one(request, want string) (reply, error) {
	replies, err := b.ask(request)
	if err != nil {
		return reply{}, err
	}
	if !replies[0].is(want) {
		b.failed = true
		line, _, _ := strings.Cut(request, "\r\n")
		return replies[0], fmt.Errorf("beanstalkd replied to %q with %q", line, strings.Join(replies[0].words, " "))
	}
	return replies[0], nil
}

func (b *oldConn) read() (r reply, err error) {
	line, err := b.r.ReadSlice('\n') // of at most 4 KiB, the size of the buffer
	if err != nil {
		return r, err
	}
	r.words = strings.Fields(string(line))
	if len(r.words) == 0 {
		return r, errors.New("empty reply")
	}
	switch r.words[0] {
	case "OK", "RESERVED", "FOUND":
	default:
		return r, nil
	}
	size, err := strconv.Atoi(r.words[len(r.words)-1])
	if err != nil || size < 0 {
		return r, fmt.Errorf("reply %q has no length", strings.Join(r.words, " "))
	}
	if b.spent += min(size, importer.MaxReply+1); b.spent > importer.MaxReply {
		return r, importer.ReplyError(b.c.RemoteAddr().String())
	}
	body := make([]byte, size+2)
	_, err = io.ReadFull(b.r, body)
	r.body = body[:size]
	return r, err
}
