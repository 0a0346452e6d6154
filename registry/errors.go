package registry

import "github.com/wakecall/wakecall/database"

// Errors of the registry. What else comes back is a *FieldError, seal.ErrKey, or a fault of the registry itself.
var (
	ErrUnavailable = database.ErrUnavailable
	ErrSchemaOlder = database.ErrSchemaOlder
	ErrSchemaNewer = database.ErrSchemaNewer

	ErrNoTopic   = database.NewRefusal("no such topic")
	ErrNoShard   = database.NewRefusal("no such shard")
	ErrNoToken   = database.NewRefusal("no such token")
	ErrNoUser    = database.NewRefusal("no such user")
	ErrExists    = database.NewRefusal("it exists already")
	ErrLastAdmin = database.NewRefusal("it is the last user with the role admin: give the role to another first")
)

// errUnchanged ends a transaction that found nothing to change.
var errUnchanged = database.NewRefusal("nothing to change")
