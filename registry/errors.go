package registry

import "github.com/wakecall/wakecall/database"

// Errors of the registry. What else comes back is a *FieldError, seal.ErrKey, or a fault of the registry itself.
var (
	ErrUnavailable = database.ErrUnavailable
	ErrSchemaOlder = database.ErrSchemaOlder
	ErrSchemaNewer = database.ErrSchemaNewer

	ErrNoTopic = database.NewRefusal("no such topic")
	ErrNoShard = database.NewRefusal("no such shard")
	ErrNoToken = database.NewRefusal("no such token")
	ErrChanged = database.NewRefusal("it is not in the state that the request expects; read it again")
)

// ErrUnchanged ends a Change that found nothing to change.
var ErrUnchanged = database.NewRefusal("nothing to change")
