// Package relay carries the rows of an outbox table to Wakecall: the pushes, changes and cancels that services write in
// the transactions of their own data.
//
//	waiting ──claim──▶ claimed ──call, settle──▶ deleted
//	   ▲                 │  │
//	   │ claim runs out  │  └─ 429, 5xx, no answer ─▶ retrying ─▶ waiting
//	   └─────────────────┘  └─ 4xx ─▶ retrying, after enough of them refused (set aside)
//
// A relay claims rows by their state, never by a cursor over seq, because transactions commit in another order than
// that of seq. A claim is one short transaction; no lock is held while a relay calls Wakecall. A claim has an id of its
// own and ends by the database's clock. When it has run out, any relay makes its rows wait again; from then on settling
// them by the old claim's id has no effect.
//
// Two rows with the same key (ordered_by) or the same job are never carried at the same time: a row is claimed only if
// each earlier row with one of its names is gone or in the same claim, and no other row with one of them is claimed.
// Within a claim they are carried one after the other, and each is settled before the next is called. So what is
// repeated after a kill or a lost answer is the last row that was carried, never one that a later row has overtaken.
//
// A call begins only if it ends, by its timeout, a second before its claim does, by the monotonic clock and counted
// from before the claim's transaction. A late call of an old relay could be applied after a new relay has carried later
// rows only if the server held the request longer than that, after the connection was closed.
package relay
