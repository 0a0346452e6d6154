package devclock

// LimitForTest sets the most calls of an advance.
func (d *Driver) LimitForTest(calls int) { d.most = calls }
