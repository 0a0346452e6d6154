package page

import (
	"slices"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/internal/account"
)

const viewerKey = "viewer"

// SetViewer stores the current user of a request.
func SetViewer(c echo.Context, u *account.User) { c.Set(viewerKey, u) }

// Viewer returns the current user, nil before signing in.
func Viewer(c echo.Context) *account.User {
	u, _ := c.Get(viewerKey).(*account.User)
	return u
}

// Actor returns the current user's name for the audit trail.
func Actor(c echo.Context) string {
	if u := Viewer(c); u != nil {
		return "user/" + u.Name
	}
	return "nobody"
}

// Reaches reports whether a role includes the rights of another one.
func Reaches(have, want account.Role) bool {
	rank := slices.Index(account.Roles, have)
	return rank >= 0 && rank >= slices.Index(account.Roles, want)
}

// May reports whether the current user has a role, or a higher one.
func May(c echo.Context, role account.Role) bool {
	u := Viewer(c)
	return u != nil && Reaches(u.Role, role)
}

// roleError is the error of a user who lacks a role.
type roleError struct{ role account.Role }

func (e *roleError) Error() string { return "requires the role " + string(e.role) }

// Need wraps a handler that not every user may call.
func Need(role account.Role, h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !May(c, role) {
			return &roleError{role}
		}
		return h(c)
	}
}
