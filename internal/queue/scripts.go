package queue

import (
	"embed"

	"github.com/wakecall/wakecall/internal/store"
)

// The scripts of moves between shards, and of what people do. Each has its text in lua/, which describes its arguments and its result.
var (
	moverScript   = store.Declare(luaFiles, store.Row{Name: "mover"})
	deferScript   = store.Declare(luaFiles, store.Row{Name: "defer"})
	restoreScript = store.Declare(luaFiles, store.Row{Name: "restore", Deadline: true})
	leaveScript   = store.Declare(luaFiles, store.Row{Name: "leave", Lost: store.LostNever})

	probeNowScript = store.Declare(luaFiles, store.Row{Name: "probenow"})
)

//go:embed lua
var luaFiles embed.FS
