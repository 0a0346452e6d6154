package observe

import (
	"embed"

	"github.com/wakecall/wakecall/internal/store"
)

// The scripts for figures. Each has its text in lua/, which describes its arguments and its result.
var (
	forecastScript = store.Declare(luaFiles, store.Row{Name: "forecast"})
	noteScript     = store.Declare(luaFiles, store.Row{Name: "note", Lost: store.LostNever}) // it would count twice
	notedScript    = store.Declare(luaFiles, store.Row{Name: "noted"})
	standingScript = store.Declare(luaFiles, store.Row{Name: "standing"})
	activeScript   = store.Declare(luaFiles, store.Row{Name: "active"})
)

//go:embed lua
var luaFiles embed.FS
