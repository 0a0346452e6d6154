package queue

// reconcileLua has the texts of the scripts.
var reconcileLua = storeLua

// The scripts of the comparison with the journals. Each has its text in lua/, which describes its arguments and result.
var (
	attendScript     = Declare(reconcileLua, Row{Name: "attend", Guard: GuardNone})
	comparedScript   = Declare(reconcileLua, Row{Name: "compared", Guard: GuardNone})
	replayScript     = Declare(reconcileLua, Row{Name: "replay", Guard: GuardNone})
	handReplayScript = Declare(reconcileLua,
		Row{Name: "replay by hand", File: "replay", Guard: GuardNone, RefuseFull: true})
)
