// Package alert finds what is wrong and tells people: by mail, and by webhooks for Slack, Feishu, DingTalk, WeCom and
// others.
//
// # The life of an alert
//
//	           a round finds it             every Settings.RemindAfter
//	nothing ────────────────────> open ──────────────────────────────> open
//	                 "begins"      │ no round finds it any more   "still"
//	                               v
//	                             ended  "is over"
//
// Rounds (every five seconds) find what is wrong now: levels, not events. An alert neither begins nor ends in a round
// that cannot judge it, because a shard does not answer. A host that has just started ends no alert of others before
// it has watched for the span of the rule, such as ten minutes for dead jobs.
//
// Of the hosts that find the same, the store tells one that it began, one that it still lasts, and one that it ended,
// so only one message goes out. An alert is over when no host has found it for 90 seconds; other hosts end the alerts
// of a host that died. While the store is away each host relies on its own memory and the last known settings,
// because an outage of the registry must not delay a mail about Redis. Two hosts may then send the same message.
//
// Dead jobs are reported in digests, by the host that claims them in the store. Deaths during a time without any
// watch, without the store, or without one of the shards are reported later.
//
// # Sending
//
// Each recipient of each message is one delivery. Each channel has a bounded queue and its own worker, with time
// limits and five tries over about ten minutes, so a mail server that hangs delays no webhook. The store knows which
// messages wait and which process sends them: what a process leaves behind after a reload, or two minutes after it
// died, is sent by another one, on any host. Results are kept in the store. Rounds never wait for a mail server, and
// sending never waits for the store.
//
// # Files
//
// watch.go and trend.go read the topics, judge.go has the rules, open.go the life of an alert, digest.go and
// deaths.go the digests of dead jobs, outbox.go and send.go the sending, store.go and deliveries.go what is stored.
package alert
