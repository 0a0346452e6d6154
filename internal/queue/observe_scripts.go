package queue

// observeLua has the texts of the scripts.
var observeLua = storeLua

// The scripts for figures. Each has its text in lua/, which describes its arguments and its result.
var (
	forecastScript = Declare(observeLua, Row{Name: "forecast"})
	noteScript     = Declare(observeLua, Row{Name: "note", Lost: LostNever}) // it would count twice
	notedScript    = Declare(observeLua, Row{Name: "noted"})
	standingScript = Declare(observeLua, Row{Name: "standing"})
	limitsScript   = Declare(observeLua, Row{Name: "limits"})
	activeScript   = Declare(observeLua, Row{Name: "active"})
)
