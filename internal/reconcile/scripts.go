package reconcile

import (
	"embed"

	"github.com/wakecall/wakecall/internal/store"
)

// The scripts of the comparison with the journals. Each has its text in lua/, which describes its arguments and result.
var (
	attendScript     = store.Declare(luaFiles, store.Row{Name: "attend", Guard: store.GuardNone})
	openBucketScript = store.Declare(luaFiles, store.Row{Name: "open_bucket", Guard: store.GuardNone})
	replayScript     = store.Declare(luaFiles, store.Row{Name: "replay", Guard: store.GuardNone})
	handReplayScript = store.Declare(
		luaFiles, store.Row{Name: "replay by hand", File: "replay", Guard: store.GuardNone, RefuseFull: true})
)

//go:embed lua
var luaFiles embed.FS
