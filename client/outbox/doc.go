// Package outbox writes rows of the table that `wakecall relay` carries to Wakecall, in the transaction of your own
// data: a job is pushed, changed or cancelled if, and only if, the transaction is committed. It imports the standard
// library only.
//
//	var timers = outbox.Table{Dialect: outbox.PostgreSQL}
//
//	// in the transaction that stores order 42
//	err := timers.Push(ctx, tx, client.Push{
//		Topic: "order.close", ID: "order-42", Group: "order-42", Body: json.RawMessage(`{"order":42}`),
//		Delay: client.After(30 * time.Minute),
//	})
//
//	// in the transaction that marks it as paid
//	err := timers.CancelGroup(ctx, tx, "order-42", 10*time.Minute)
//
// `wakecall relay ddl` prints the table.
//
// # Order
//
// Rows of one key are carried in the order in which the database numbered them. The key of a row is its group, or its
// topic and id if it has none, so Change and Delete must name the group with which the job was pushed. The database
// numbers a row when it is inserted, not when it is committed: lock a row of your own first, that of the order, and
// transactions of one order are numbered in the order of their commits.
//
// # Errors
//
// A row that Wakecall refuses is set aside, and later rows of its key wait until somebody decides. The methods
// therefore check what can be checked without a server, and return an error before they insert. Whether the topic
// exists and how large a body may be only the server knows.
//
// # Transactions
//
// A *sql.Tx is a Tx. So is the connection of a transaction of gorm, tx.Statement.ConnPool. A transaction of pgx is one
// with an adapter of three lines:
//
//	type pgxTx struct{ pgx.Tx }
//
//	func (t pgxTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
//		_, err := t.Exec(ctx, query, args...)
//		return nil, err
//	}
package outbox
