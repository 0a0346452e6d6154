package queue

// The scripts for figures. Each has its text in lua/, which describes its arguments and its result.
var (
	forecastScript = declare(Row{Name: "forecast"})
	noteScript     = declare(Row{Name: "note", Lost: LostNever}) // it would count twice
	notedScript    = declare(Row{Name: "noted"})
	standingScript = declare(Row{Name: "standing"})
	activeScript   = declare(Row{Name: "active"})
)
