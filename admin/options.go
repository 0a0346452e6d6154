package admin

import "github.com/wakecall/wakecall/admin/page"

// Options configure an Admin.
type Options = page.Options
