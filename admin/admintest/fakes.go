package admintest

import (
	"context"
	"errors"
	"time"

	"github.com/wakecall/wakecall/admin/shards"
	"github.com/wakecall/wakecall/admin/topics"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/master"
)

// The fakes of an installation without any events yet.
type (
	idleMaster struct{ shards.Master }
	noHistory  struct{}
	NoActivity struct{}
	noCalls    struct{ topics.Caller }
)

func (idleMaster) Ps(context.Context) (*master.Tree, error) { return &master.Tree{}, nil }

func (noHistory) Series(context.Context, string, string) (history.Points, error) {
	return history.Points{}, nil
}

func (noHistory) All(context.Context, string) ([]history.Points, error) { return nil, nil }

func (noHistory) Range(context.Context, string, time.Time, time.Time) (history.Points, error) {
	return history.Points{}, nil
}

func (NoActivity) Attempts(context.Context, string, int) ([]activity.Attempt, error) { return nil, nil }

func (NoActivity) Errors(context.Context, string) ([]observe.ErrorNote, error) { return nil, nil }

func (NoActivity) Lateness(context.Context, []string, time.Time) (map[string]activity.Histogram, error) {
	return nil, nil
}

func (NoActivity) ClearErrors(context.Context, string) error { return nil }

func (noCalls) Describe(*callback.Endpoint, *callback.Request) (*callback.Sent, error) {
	return nil, errors.New("the fake makes no calls")
}
