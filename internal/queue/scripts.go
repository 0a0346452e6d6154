package queue

import (
	"embed"

	"github.com/wakecall/wakecall/internal/store"
)

// The scripts about whole topics and several shards. Each has its text in lua/, which describes its arguments and its
// result.
var (
	moverScript   = store.Declare(luaFiles, store.Row{Name: "mover"})
	deferScript   = store.Declare(luaFiles, store.Row{Name: "defer"})
	restoreScript = store.Declare(luaFiles, store.Row{Name: "restore", Deadline: true})
	leaveScript   = store.Declare(luaFiles, store.Row{Name: "leave", Lost: store.LostNever})

	dropScript  = store.Declare(luaFiles, store.Row{Name: "drop", Deadline: true, Lost: store.LostDoubt})
	clearScript = store.Declare(
		luaFiles, store.Row{Name: "clear", File: "drop", Guard: store.GuardNone, Lost: store.LostDoubt})

	groupScript       = store.Declare(luaFiles, store.Row{Name: "group"})
	pendScript        = store.Declare(luaFiles, store.Row{Name: "pend"})
	closeGroupScript  = store.Declare(luaFiles, store.Row{Name: "closegroup", Deadline: true})
	cancelGroupScript = store.Declare(luaFiles, store.Row{Name: "cancelgroup", Deadline: true, Lost: store.LostDoubt})
	moveGroupScript   = store.Declare(luaFiles, store.Row{Name: "movegroup", Deadline: true, Lost: store.LostNever})
	cancelledScript   = store.Declare(luaFiles, store.Row{
		Name: "cancelled", File: "cancelgroup", Guard: store.GuardNone, Lost: store.LostDoubt})

	drawScript   = store.Declare(luaFiles, store.Row{Name: "draw", Lost: store.LostNever})
	quotasScript = store.Declare(luaFiles, store.Row{Name: "quotas"})

	workersScript  = store.Declare(luaFiles, store.Row{Name: "workers"})
	probeNowScript = store.Declare(luaFiles, store.Row{Name: "probenow"})
)

//go:embed lua
var luaFiles embed.FS
