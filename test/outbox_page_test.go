package test

import "testing"

// TestOutboxOfTheGuide runs the commands of docs/guides/outbox.md in their order, and finds what the page says that one
// sees.
func TestOutboxOfTheGuide(t *testing.T) {
	t.Parallel()
	followGuide(t, "outbox.md",
		"", `"name":"order.close"`, "", "", "", "order-42", "", "", "order-42", "", "job_not_found")
}
