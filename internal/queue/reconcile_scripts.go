package queue

// The scripts of the comparison with the journals. Each has its text in lua/, which describes its arguments and result.
var (
	attendScript     = Declare(luaFiles, Row{Name: "attend", Guard: GuardNone})
	openBucketScript = Declare(luaFiles, Row{Name: "open_bucket", Guard: GuardNone})
	replayScript     = Declare(luaFiles, Row{Name: "replay", Guard: GuardNone})
	handReplayScript = Declare(
		luaFiles, Row{Name: "replay by hand", File: "replay", Guard: GuardNone, RefuseFull: true})
)
