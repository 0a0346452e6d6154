package admin

import "github.com/wakecall/wakecall/admin/page"

// Options of an Admin.
type Options = page.Options
