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
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// known has the keys of the texts of errors that are not messages.
var known = []struct {
	err error
	key string
}{
	{queue.ErrNotFound, "errors.no_job"},
	{queue.ErrRunning, "errors.running"},
	{queue.ErrDuplicate, "errors.duplicate"},
	{queue.ErrDead, "errors.dead"},
	{queue.ErrAlive, "errors.alive"},
	{queue.ErrBodyGone, "errors.body_gone"},
	{queue.ErrCursor, "errors.cursor"},
	{queue.ErrCollision, "errors.collision"},
	{queue.ErrTooFar, "errors.too_far"},
	{registry.ErrNoTopic, "errors.no_topic"},
	{registry.ErrNoShard, "errors.no_shard"},
	{registry.ErrNoToken, "errors.no_token"},
	{registry.ErrChanged, "errors.changed"},
	{registry.ErrUnavailable, "errors.registry"},
	{account.ErrNoUser, "errors.no_user"},
	{account.ErrLastAdmin, "errors.last_admin"},
	{bulk.ErrNoTask, "errors.no_task"},
}

// Explain returns an error in the language of the request, as far as there are translations.
func (b *Base) Explain(c echo.Context, err error) string { return b.explain(Lang(c), err) }

func (b *Base) explain(lang string, err error) string {
	var field *registry.FieldError
	var m message.Message
	var away *queue.UnavailableError
	switch {
	case errors.As(err, &field) && field.Field != "":
		return field.Field + ": " + b.say(lang, field.Message)
	case errors.As(err, &field):
		return b.say(lang, field.Message)
	case errors.As(err, &m):
		return b.say(lang, m)
	case errors.As(err, &away) && !away.Stored:
		return b.say(lang, message.New("errors.unavailable", away.Reason, away.Err))
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return b.texts[lang].T(k.key)
		}
	}
	return err.Error()
}

// Words returns a duration in the language of the request, to the second.
func (b *Base) Words(c echo.Context, d time.Duration) string {
	return inWords(b.texts[Lang(c)].T, Duration(d.Round(time.Second)))
}

// say returns a message in a language.
func (b *Base) say(lang string, m message.Message) string {
	return b.texts[lang].Say(m, func(arg any) string { return b.word(lang, arg) })
}

// word formats an argument of a message. In a stored message, a duration is text.
func (b *Base) word(lang string, arg any) string {
	switch x := arg.(type) {
	case time.Duration, interface{ Std() time.Duration }:
		return inWords(b.texts[lang].T, Duration(x))
	case error:
		var all []string
		for _, one := range Flatten(x) {
			all = append(all, b.explain(lang, one))
		}
		return strings.Join(all, "; ")
	case string:
		if d, err := time.ParseDuration(x); err == nil && d != 0 {
			return inWords(b.texts[lang].T, Duration(d))
		}
	}
	return fmt.Sprint(arg)
}
