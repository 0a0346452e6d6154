package beanstalk

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// Limits of the protocol.
const (
	maxLine = 224 // with CRLF
	maxName = 200
)

// Replies to malformed commands.
const (
	badFormat      = "BAD_FORMAT"
	unknownCommand = "UNKNOWN_COMMAND"
	expectedCRLF   = "EXPECTED_CRLF"
	jobTooBig      = "JOB_TOO_BIG"
)

// command is a line, with the body of a put.
type command struct {
	name string
	args []string
	body []byte
	// refusal is the reply sent instead of running the command; "" if there is no error so far.
	refusal string
}

// reader reads the commands of a connection.
type reader struct {
	r       *bufio.Reader
	maxBody int
	// within limits how long the rest of a put may take; the zero time: no longer. It may be nil.
	within func(time.Time) error
}

// bodyTimeout is how long a client may take to send the body of a put. Between commands it may be silent for ever.
const bodyTimeout = time.Minute

func newReader(r io.Reader, maxBody int) *reader {
	return &reader{r: bufio.NewReaderSize(r, 4096), maxBody: maxBody}
}

// next reads a command. An error ends the connection.
func (r *reader) next() (command, error) {
	line, err := r.line()
	if err != nil {
		return command{}, err
	}
	if line == nil {
		return command{refusal: badFormat}, nil
	}
	words := strings.Split(string(line), " ")
	c := command{name: words[0], args: words[1:]}
	if c.name == "put" {
		return r.put(c)
	}
	return c, nil
}

// line reads a line without its CRLF. It returns nil if the line is too long, of which it skips the rest, or contains a
// NUL. An LF alone does not end a line, so that text after an LF in a name is not run as a command.
func (r *reader) line() ([]byte, error) {
	var line []byte
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		part, err := r.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		line = append(line, part...)
		line = line[max(0, len(line)-maxLine-1):] // only the end of a long line matters
	}
	if isHTTP(line) {
		return nil, errHTTP
	}
	if len(line) > maxLine || bytes.IndexByte(line, 0) >= 0 {
		return nil, nil
	}
	return line[:len(line)-2], nil
}

// errHTTP ends the connection of a browser or of a callback, whose body could contain commands.
var errHTTP = errors.New("an HTTP request")

// isHTTP reports whether a line, or the end of a long one, is that of an HTTP request. The last word of a command with
// more than two is a number.
func isHTTP(line []byte) bool {
	last := bytes.LastIndexByte(line, ' ')
	return last >= 0 && bytes.HasPrefix(line[last+1:], []byte("HTTP/")) &&
		(len(line) > maxLine || bytes.IndexByte(line, ' ') < last)
}

// put reads the body of a put. What follows a malformed put is parsed as commands.
func (r *reader) put(c command) (command, error) {
	if len(c.args) != 4 {
		return command{refusal: badFormat}, nil
	}
	for _, arg := range c.args {
		if _, ok := number(arg, 32); !ok {
			return command{refusal: badFormat}, nil
		}
	}
	n, _ := number(c.args[3], 32)
	if r.within != nil {
		_ = r.within(time.Now().Add(bodyTimeout))
		defer func() { _ = r.within(time.Time{}) }()
	}
	if n > uint64(r.maxBody) {
		c.refusal = jobTooBig
		_, err := io.CopyN(io.Discard, r.r, int64(n)+2)
		return c, err
	}
	c.body = make([]byte, n+2)
	if _, err := io.ReadFull(r.r, c.body); err != nil {
		return c, err
	}
	if !bytes.HasSuffix(c.body, []byte("\r\n")) {
		c.refusal = expectedCRLF
		if c.body[n+1] != '\n' { // the line continues
			_, err := r.skipLine()
			return c, err
		}
		return c, nil
	}
	c.body = c.body[:n:n]
	return c, nil
}

func (r *reader) skipLine() (n int, err error) {
	for {
		part, err := r.r.ReadSlice('\n')
		n += len(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}

// number parses an unsigned decimal number.
func number(text string, bits int) (uint64, bool) {
	if text == "" || text[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, bits)
	return n, err == nil
}

// validTube reports whether a name is a valid tube name.
func validTube(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '-' {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("-+/;.$_()", rune(c)) {
			return false
		}
	}
	return true
}
