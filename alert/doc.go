// Package alert tells people of trouble: by mail, and by webhooks for Slack, Feishu, DingTalk, WeCom and others.
//
// # The life of an alert
//
//	           a round finds it             every Settings.RemindAfter
//	nothing ────────────────────> open ──────────────────────────────> open
//	                 "begins"      │ no round finds it any more   "still"
//	                               v
//	                             ended  "is over"
//
// Rounds (every five seconds) find what is wrong now: levels, not events. What a round cannot judge, because a shard
// does not answer, neither begins nor ends in it; and a host that has just started ends nothing before it has looked
// for as long as the rule says, such as ten minutes for dead jobs. Of the hosts that find the same, the store tells
// one that it began, one each time that it lasts, and one that it ended, so one mail goes out and not one each. It is
// over when none of the hosts that found it in the last 90 seconds does any more; what a host that died left open is
// looked after by the others. While the store is away each host goes by its own memory and the last known settings:
// trouble with the registry must not keep a mail about Redis from going out. Two hosts may then both send it.
//
// Deaths are told of in digests, by the host that claims them in the store; so those of a time without any watch are
// told of too, and those of a time without the store, or without one of the shards, when it is back.
//
// # Sending
//
// Each recipient of each message is one delivery. Each channel has a bounded queue and a worker of its own, with time
// limits and five tries over about ten minutes, so a mail server that hangs holds up no webhook. The store knows what
// waits and which process sends it: what a process leaves behind, at a reload or because it died (after two minutes),
// is sent by the next one, of any host. What became of it is kept in the store. Nothing here ever waits for a mail
// server, and no sending for the store.
package alert
