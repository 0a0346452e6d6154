package lmstfy

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/wakecall/wakecall/gateway"
)

var errNoPool = bad("the pool was not exists")

func (g *Gateway) listTokens(r *http.Request) (reply, error) {
	named := r.URL.Query().Get("pool")
	pool := cmp.Or(named, g.Pools[0])
	if !g.hasPool(pool) {
		return reply{}, errNoPool
	}
	list, err := g.Tokens.List(pool, r.PathValue("ns"))
	if err != nil {
		return reply{}, err
	}
	tokens := map[string]string{}
	for _, t := range list {
		text := string(t.Text)
		if named != "" {
			text = pool + ":" + text
		}
		tokens[text] = t.Description
	}
	return indented(object{"tokens": tokens})
}

// shortestToken is the minimum length of a token chosen by a user.
const shortestToken = 20

func (g *Gateway) newToken(r *http.Request) (reply, error) {
	r.Body = http.MaxBytesReader(nil, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		return reply{}, bad("invalid form")
	}
	namespace, description, own := r.PathValue("ns"), r.Form.Get("description"), r.Form.Get("token")
	switch {
	case description == "":
		return reply{}, bad("invalid description")
	case own != "" && len(own) < shortestToken:
		return reply{}, bad("the user token was too short")
	case len(namespace) > longestName:
		return reply{}, bad("the namespace name was too long")
	case !oneName.MatchString(namespace):
		return reply{}, bad("namespace name contains forbidden characters")
	}
	pool := r.URL.Query().Get("pool")
	if p, t, ok := strings.Cut(own, ":"); ok && !strings.Contains(t, ":") {
		pool, own = p, t
	}
	if pool = cmp.Or(pool, g.Pools[0]); !g.hasPool(pool) {
		return reply{}, errNoPool
	}
	if own == "" {
		own = newID(time.Now(), 0)[:10] + rand.Text()
	}
	err := g.Tokens.Add(r.Context(), pool, namespace, own, description)
	if errors.Is(err, ErrTokenExists) {
		return reply{}, bad(ErrTokenExists.Error())
	}
	if err != nil {
		return reply{}, err
	}
	if pool != g.Pools[0] {
		own = pool + ":" + own
	}
	return reply{status: http.StatusCreated, value: object{"token": own}, indented: true}, nil
}

func (g *Gateway) deleteToken(r *http.Request) (reply, error) {
	pool, token := g.splitToken(r.PathValue("token"))
	if !g.hasPool(pool) {
		return reply{}, errNoPool
	}
	err := g.Tokens.Delete(r.Context(), pool, r.PathValue("ns"), token)
	return reply{status: http.StatusNoContent}, err
}

func (g *Gateway) addLimit(r *http.Request) (reply, error) {
	return g.putLimit(r, http.StatusCreated, false)
}

func (g *Gateway) setLimit(r *http.Request) (reply, error) { return g.putLimit(r, http.StatusOK, true) }

func (g *Gateway) putLimit(r *http.Request, status int, replace bool) (reply, error) {
	var l Limit
	text, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	switch {
	case err != nil:
		return reply{}, bad(err.Error())
	case l.Read == 0 && l.Write == 0:
		return reply{}, &gateway.Problem{Status: http.StatusBadRequest, Body: object{"limiter": l}}
	case l.Interval <= 0:
		return reply{}, bad("interval should be > 0")
	}
	pool, token := g.splitToken(r.PathValue("token"))
	err = g.Tokens.SetLimit(r.Context(), pool, r.PathValue("ns"), token, &l, replace)
	if errors.Is(err, ErrLimitExists) {
		return reply{}, refuse(http.StatusInternalServerError,
			fmt.Sprintf("throttler token(%s) has already exists", token))
	}
	return reply{status: status, value: object{"limiter": l}}, err
}

func (g *Gateway) getLimit(r *http.Request) (reply, error) {
	pool, text := g.splitToken(r.PathValue("token"))
	token, err := g.Tokens.Find(pool, r.PathValue("ns"), text)
	if err != nil {
		return reply{}, err
	}
	if token == nil || token.Limit == nil {
		return reply{status: http.StatusNotFound}, nil // null
	}
	return ok(token.Limit)
}

func (g *Gateway) deleteLimit(r *http.Request) (reply, error) {
	pool, token := g.splitToken(r.PathValue("token"))
	if err := g.Tokens.SetLimit(r.Context(), pool, r.PathValue("ns"), token, nil, true); err != nil {
		return reply{}, err
	}
	return ok(object{"msg": "success"})
}

func (g *Gateway) listLimits(*http.Request) (reply, error) {
	list, err := g.Tokens.Limits(g.Pools[0])
	return reply{status: http.StatusOK, value: list}, err
}
