package page

import (
	"errors"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/topicfile"
	"github.com/wakecall/wakecall/web"
)

// Texts are the texts and messages of the pages in all languages.
type Texts struct {
	texts    map[string]web.Texts
	messages map[string]*web.Messages
}

// LoadTexts loads the texts. It fails when one of them is broken.
func LoadTexts() (t *Texts, err error) {
	t = &Texts{}
	if t.texts, err = web.LoadTexts(); err != nil {
		return nil, err
	}
	t.messages, err = web.LoadMessages()
	return t, err
}

// T returns the text of a key in the language of the request.
func (t *Texts) T(c echo.Context, key string, args ...any) string {
	return t.texts[Lang(c)].T(key, args...)
}

// known are errors whose texts are messages with a translation.
var known = []error{
	queue.ErrNotFound, queue.ErrRunning, queue.ErrDuplicate, queue.ErrDead, queue.ErrCursor, queue.ErrNewer,
	queue.ErrCollision, queue.ErrTooFar, queue.ErrAlive, queue.ErrBodyGone, registry.ErrUnavailable,
	registry.ErrNoTopic, registry.ErrChanged, registry.ErrNoShard, registry.ErrNoToken, account.ErrNoUser, account.ErrLastAdmin, bulk.ErrNoTask,
}

// Explain returns an error in the language of the request, as far as there are translations.
func (t *Texts) Explain(c echo.Context, err error) string {
	var field *registry.FieldError
	var localized *bulk.LocalizedError
	var away *queue.UnavailableError
	var mistake *topicfile.Mistake
	var role *roleError
	switch lang := Lang(c); {
	case errors.As(err, &role):
		return t.T(c, "common.needs_role", t.T(c, "common.role_"+string(role.role)))
	case errors.As(err, &mistake):
		return t.message(lang, "document %d: topic %s: %s", mistake.Document, t.stored(lang, mistake.Topic),
			t.explainAll(c, mistake.Err))
	case errors.As(err, &field) && field.Field != "":
		return field.Field + ": " + t.detail(c, field)
	case errors.As(err, &field):
		return t.detail(c, field)
	case errors.As(err, &localized):
		return t.T(c, localized.Key, localized.Args...)
	case errors.As(err, &away) && !away.Stored:
		return t.message(lang, "no shard is available: %s: %s", away.Reason, t.stored(lang, away.Err.Error()))
	case lang != "en":
		for _, e := range known {
			if errors.Is(err, e) {
				return t.stored(lang, e.Error())
			}
		}
		return t.stored(lang, err.Error())
	}
	return err.Error()
}

// explainAll explains joined errors.
func (t *Texts) explainAll(c echo.Context, err error) string {
	var all []string
	for _, one := range Flatten(err) {
		all = append(all, t.Explain(c, one))
	}
	return strings.Join(all, "; ")
}

// Words returns a duration in the language of the request, to the second.
func (t *Texts) Words(c echo.Context, d time.Duration) string {
	return inWords(t.texts[Lang(c)].T, Duration(d.Round(time.Second)))
}

// detail returns the error in a field, without the field's name.
func (t *Texts) detail(c echo.Context, e *registry.FieldError) string {
	if e.Format == "" {
		return t.stored(Lang(c), e.Detail)
	}
	return t.message(Lang(c), e.Format, e.Args...)
}

// message returns a message by its code, which is the English format.
func (t *Texts) message(lang, format string, args ...any) string {
	if lang == "en" {
		return t.messages[lang].Message(format, args...)
	}
	own := make([]any, len(args))
	for i, arg := range args {
		switch x := arg.(type) {
		case time.Duration, interface{ Std() time.Duration }:
			own[i] = inWords(t.texts[lang].T, Duration(x))
		case error:
			own[i] = t.stored(lang, x.Error())
		case string:
			own[i] = t.stored(lang, x)
		default:
			own[i] = arg
		}
	}
	return t.messages[lang].Message(format, own...)
}

// stored translates a message that was stored as English text, such as the outcome of a callback.
func (t *Texts) stored(lang, text string) string {
	return t.messages[lang].Stored(text, func(part string) string {
		if d, err := time.ParseDuration(part); err == nil && part != "0" {
			return inWords(t.texts[lang].T, Duration(d))
		}
		return part
	})
}
