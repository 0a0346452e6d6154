package queue

// The scripts of the comparison with the journals. Each has its text in lua/, which describes its arguments and result.
var (
	attendScript     = declare(Row{Name: "attend", Guard: GuardNone})
	openBucketScript = declare(Row{Name: "open_bucket", Guard: GuardNone})
	replayScript     = declare(Row{Name: "replay", Guard: GuardNone})
	handReplayScript = declare(
		Row{Name: "replay by hand", File: "replay", Guard: GuardNone, RefuseFull: true})
)
