package grape

import (
	"cmp"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
)

// Codes of errors in requests.
const (
	codeUnknownTube = 1000
	codeNoTube      = 1001
	codeTubeName    = 1002
	codeLongTube    = 1003
	codeOffline     = 1004 // not in Grape
	codeNoID        = 2001
	codeDTR         = 2002
	codeTTR         = 2003
	codeBody        = 2004 // not in Grape
	codeID          = 2005 // not in Grape
)

type request struct {
	*http.Request
	w       http.ResponseWriter
	query   url.Values
	maxBody int64
	taken   []store.Job // jobs in the answer
}

var tubeName = regexp.MustCompile(`^([a-z]|[A-Z])(\w|-)*$`)

const maxTube = 64

func checkTube(name string) error {
	switch {
	case name == "":
		return bad(codeNoTube, "tube name is empty")
	case !tubeName.MatchString(name):
		return bad(codeTubeName, `tube name not match ^([a-z]|[A-Z])(\w|-)*`)
	case len(name) > maxTube:
		return bad(codeLongTube, "tube name great than 64")
	}
	return nil
}

// id returns the job's id. Older clients name the parameter id.
func (r *request) id() (string, error) {
	id := cmp.Or(r.query.Get("jid"), r.query.Get("id"))
	if id == "" {
		return "", bad(codeNoID, "job id is empty")
	}
	if err := store.CheckID(id); err != nil {
		return "", bad(codeID, "job id: "+err.Error())
	}
	return id, nil
}

// duration parses a number of milliseconds. A negative one is 0, as in Grape.
func (r *request) duration(name string, code int) (time.Duration, error) {
	if !r.query.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseInt(r.query.Get(name), 10, 64)
	if err != nil || n > math.MaxInt64/int64(time.Millisecond) {
		return 0, bad(code, "job "+name+" is invalid")
	}
	return time.Duration(max(0, n)) * time.Millisecond, nil
}

// most returns how many jobs the client wants: 1 if it sends no valid number.
func (r *request) most() int {
	n, err := strconv.Atoi(r.query.Get("max"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

func (r *request) body() ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, r.maxBody))
	switch {
	case errors.Is(err, gateway.ErrBodies):
		return nil, problem(http.StatusInternalServerError, faultCode, err.Error())
	case err != nil:
		return nil, bad(codeBody, "job data cannot be read: "+err.Error())
	}
	return body, nil
}
