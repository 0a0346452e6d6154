package queue

// The scripts for figures. Each has its text in lua/, which describes its arguments and its result.
var (
	forecastScript = Declare(luaFiles, Row{Name: "forecast"})
	noteScript     = Declare(luaFiles, Row{Name: "note", Lost: LostNever}) // it would count twice
	notedScript    = Declare(luaFiles, Row{Name: "noted"})
	standingScript = Declare(luaFiles, Row{Name: "standing"})
	activeScript   = Declare(luaFiles, Row{Name: "active"})
)
