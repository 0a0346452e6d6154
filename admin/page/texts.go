package page

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/web"
)

// Texts are the texts and messages of the pages in all languages.
type Texts struct{ texts map[string]message.Texts }

// LoadTexts loads the texts. It fails when one of them is broken.
func LoadTexts() (*Texts, error) {
	texts, err := web.LoadTexts()
	return &Texts{texts}, err
}

// T returns the text of a key in the language of the request.
func (t *Texts) T(c echo.Context, key string, args ...any) string {
	return t.texts[Lang(c)].T(key, args...)
}

// known maps errors that are not messages to the keys of their texts.
var known = []struct {
	err error
	key string
}{
	{store.ErrNotFound, "errors.no_job"},
	{store.ErrRunning, "errors.running"},
	{store.ErrDuplicate, "errors.duplicate"},
	{store.ErrDead, "errors.dead"},
	{store.ErrAlive, "errors.alive"},
	{store.ErrBodyGone, "errors.body_gone"},
	{store.ErrCursor, "errors.cursor"},
	{store.ErrTooFar, "errors.too_far"},
	{store.ErrExpires, "errors.expires"},
	{store.ErrClosed, "errors.closed"},
	{registry.ErrNoTopic, "errors.no_topic"},
	{registry.ErrNoShard, "errors.no_shard"},
	{registry.ErrNoSchedule, "errors.no_schedule"},
	{registry.ErrNoToken, "errors.no_token"},
	{registry.ErrChanged, "errors.changed"},
	{registry.ErrUnavailable, "errors.registry"},
	{account.ErrNoUser, "errors.no_user"},
	{account.ErrLastAdmin, "errors.last_admin"},
	{bulk.ErrNoTask, "errors.no_task"},
}

// Explain returns an error in the language of the request, as far as there are translations.
func (t *Texts) Explain(c echo.Context, err error) string { return t.explain(Lang(c), err) }

func (t *Texts) explain(lang string, err error) string {
	var field *registry.FieldError
	var m message.Message
	var away *store.UnavailableError
	var role *roleError
	switch {
	case errors.As(err, &role):
		return t.say(lang, message.New("common.needs_role", message.New("common.role_"+string(role.role))))
	case errors.As(err, &field) && field.Field != "":
		return field.Field + ": " + t.say(lang, field.Message)
	case errors.As(err, &field):
		return t.say(lang, field.Message)
	case errors.As(err, &m):
		return t.say(lang, m)
	case errors.As(err, &away) && !away.Stored:
		return t.say(lang, message.New("errors.unavailable", away.Reason, away.Err))
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return t.texts[lang].T(k.key)
		}
	}
	return err.Error()
}

// Words returns a duration in the language of the request, to the second.
func (t *Texts) Words(c echo.Context, d time.Duration) string {
	return inWords(t.texts[Lang(c)].T, Duration(d.Round(time.Second)))
}

// say returns a message in a language.
func (t *Texts) say(lang string, m message.Message) string {
	return t.texts[lang].Say(m, func(arg any) string { return t.word(lang, arg) })
}

// word formats an argument of a message. In a stored message, a duration is text.
func (t *Texts) word(lang string, arg any) string {
	switch x := arg.(type) {
	case time.Duration, interface{ Std() time.Duration }:
		return inWords(t.texts[lang].T, Duration(x))
	case error:
		var all []string
		for _, one := range Flatten(x) {
			all = append(all, t.explain(lang, one))
		}
		return strings.Join(all, "; ")
	case string:
		if d, err := time.ParseDuration(x); err == nil && d != 0 {
			return inWords(t.texts[lang].T, Duration(d))
		}
	}
	return fmt.Sprint(arg)
}
