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
)

// known are errors whose texts are messages with a translation.
var known = []error{
	queue.ErrNotFound, queue.ErrRunning, queue.ErrDuplicate, queue.ErrDead, queue.ErrCursor,
	queue.ErrCollision, queue.ErrTooFar, queue.ErrAlive, queue.ErrBodyGone, registry.ErrUnavailable, registry.ErrNoTopic,
	registry.ErrChanged,
	registry.ErrNoShard, registry.ErrNoToken, account.ErrNoUser, account.ErrLastAdmin, bulk.ErrNoTask,
}

// Explain returns an error in the language of the request, as far as there are translations.
func (b *Base) Explain(c echo.Context, err error) string {
	var field *registry.FieldError
	var localized *bulk.LocalizedError
	var away *queue.UnavailableError
	var mistake *topicfile.Mistake
	switch lang := Lang(c); {
	case errors.As(err, &mistake):
		return b.message(lang, "document %d: topic %s: %s", mistake.Document, b.stored(lang, mistake.Topic),
			b.explainAll(c, mistake.Err))
	case errors.As(err, &field) && field.Field != "":
		return field.Field + ": " + b.detail(c, field)
	case errors.As(err, &field):
		return b.detail(c, field)
	case errors.As(err, &localized):
		return b.T(c, localized.Key, localized.Args...)
	case errors.As(err, &away) && !away.Stored:
		return b.message(lang, "no shard is available: %s: %s", away.Reason, b.stored(lang, away.Err.Error()))
	case lang != "en":
		for _, e := range known {
			if errors.Is(err, e) {
				return b.stored(lang, e.Error())
			}
		}
		return b.stored(lang, err.Error())
	}
	return err.Error()
}

// explainAll explains joined errors.
func (b *Base) explainAll(c echo.Context, err error) string {
	var all []string
	for _, one := range Flatten(err) {
		all = append(all, b.Explain(c, one))
	}
	return strings.Join(all, "; ")
}

// Words returns a duration in the language of the request, to the second.
func (b *Base) Words(c echo.Context, d time.Duration) string {
	return inWords(b.texts[Lang(c)].T, Duration(d.Round(time.Second)))
}

// detail returns the error in a field, without the field's name.
func (b *Base) detail(c echo.Context, e *registry.FieldError) string {
	if e.Format == "" {
		return b.stored(Lang(c), e.Detail)
	}
	return b.message(Lang(c), e.Format, e.Args...)
}

// message returns a message by its code, which is the English format.
func (b *Base) message(lang, format string, args ...any) string {
	if lang == "en" {
		return b.messages[lang].Message(format, args...)
	}
	own := make([]any, len(args))
	for i, arg := range args {
		switch x := arg.(type) {
		case time.Duration, interface{ Std() time.Duration }:
			own[i] = inWords(b.texts[lang].T, Duration(x))
		case error:
			own[i] = b.stored(lang, x.Error())
		case string:
			own[i] = b.stored(lang, x)
		default:
			own[i] = arg
		}
	}
	return b.messages[lang].Message(format, own...)
}

// stored translates a message that was stored as English text, such as the outcome of a callback.
func (b *Base) stored(lang, text string) string {
	return b.messages[lang].Stored(text, func(part string) string {
		if d, err := time.ParseDuration(part); err == nil && part != "0" {
			return inWords(b.texts[lang].T, Duration(d))
		}
		return part
	})
}
