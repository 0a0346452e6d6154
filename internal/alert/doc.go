// Package alert detects problems and notifies people: by mail, by webhooks for Slack, Feishu, DingTalk, WeCom and other
// services, and through an Alertmanager.
//
// # Rounds
//
// Every five seconds each host finds the current problems (Watch): states, not events. It stores its findings under its
// name, and reads those of the other hosts. The host that holds a lease in the database evaluates alerts from the
// findings of all hosts and notifies people. It saves alerts, what each receiver was notified about, and messages in
// one transaction. The other hosts read that state, and any of them can take over when the lease ends: immediately
// after a graceful stop, 20 seconds after a crash.
//
// While the database is unavailable, the host with the lease continues from memory, and each of the others evaluates
// and sends independently once the lease expires, because a database outage must not delay a mail about Redis. Several
// hosts may then send the same message. Afterwards, the host that gets the lease saves what it did during the outage;
// the others discard theirs.
//
// # The life of an alert
//
// An alert is an incident of a topic, a shard or the installation. It has one or more causes, which come and go while
// the alert is open: an endpoint that answers 429, jobs that are late, jobs that died.
//
//	           a host finds a cause               no host has found one for a while
//	nothing ───────────────────────────> open ──────────────────────────────────────> ended
//
// If a round cannot judge a cause because a shard does not answer, the cause neither begins nor ends in that round. A
// process that has just started ends only causes that it has watched for the span of their rule, such as ten minutes
// for dead jobs. A cause that began because a value exceeded its limit ends only when the value is below half the
// limit, and after Rules.OverAfter without a finding, so that a fluctuating value is one alert. From the first round
// that does not find it until then, it is recovering, and is shown and reported as such. So is a topic whose calls of
// the last ten seconds were in time, although those of the last minute were late. A breaker that closes while the calls
// go on failing has not ended. While a shard is down, and for two minutes after that, topics that become late are part
// of its alert. For each kind of problem, the 100 most severely affected topics have alerts, and one more alert counts
// the rest. Findings of a host that has not reported for 20 seconds no longer count.
//
// # Notifying people
//
// A receiver is a mail address or a webhook. Notified contains the alerts that began for it and the times of its
// messages. Each round compares it with the open alerts, so nothing that began or ended is lost or reported twice.
// Notified.due has the rules. Dead jobs are reported to the addresses of their topics within two minutes. Deaths that
// occur while no host watches, the database is unavailable or their shard is down are reported later. A host that
// starts while a shard is down reports none until all have answered it.
//
// Each message is one delivery to one receiver. Each channel sends one message at a time, with time limits, five tries
// over about ten minutes, and a bounded number of waiting messages, so a mail server that hangs does not delay
// webhooks. Rounds never wait for sending. Queued messages are stored. The process with the lease sends them, including
// those of a process that stopped. A message sent just before a crash may be sent again.
//
// An Alertmanager gets every cause as a separate alert, and groups, silences and repeats them by its own rules.
//
// # Files
//
// watch.go and trend.go read the topics, schedules.go reads and judges the schedules, judge.go has the other rules, and
// cause.go the causes that they find. alert.go has the rounds, share.go the shared state, evaluate.go the life of an
// alert, and handled.go acknowledgements and mutes. receivers.go, route.go and notified.go decide who is notified and
// when, compose.go and message.go about what. dead.go and deaths.go handle dead jobs. outbox.go, send.go and
// alertmanager.go send messages, and store.go stores them.
//
//wakecall:figures
package alert
