package registry

import "github.com/wakecall/wakecall/internal/registry/database"

// Errors of the registry. Any other error is a *FieldError, seal.ErrKey, or an error of the registry itself.
var (
	ErrUnavailable = database.ErrUnavailable
	ErrSchemaOlder = database.ErrSchemaOlder
	ErrSchemaNewer = database.ErrSchemaNewer
	ErrUnreleased  = database.ErrUnreleased
	ErrText        = database.ErrText

	ErrNoTopic    = database.NewRefusal("no such topic")
	ErrOffline    = database.NewRefusal("offline; its state must be active or paused")
	ErrNoSchedule = database.NewRefusal("no such schedule")
	ErrNoShard    = database.NewRefusal("no such shard")
	ErrNoToken    = database.NewRefusal("no such token")
	ErrChanged    = database.NewRefusal("not in the expected state; read it again")
)

// ErrUnchanged makes Change store nothing, because there was nothing to change.
var ErrUnchanged = database.NewRefusal("nothing to change")
