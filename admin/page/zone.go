package page

import (
	"time"
	_ "time/tzdata" // minimal systems have no zones

	"github.com/labstack/echo/v4"
)

// What the browser remembers of time zones: the user's choice, and its own, which the script of every page stores.
const (
	zoneCookie        = "wakecall_zone"
	browserZoneCookie = "wakecall_browser_zone"
	browserZone       = "browser" // the choice of the browser's
)

// knownZone reports whether a choice is the browser's zone, UTC or a named one.
func knownZone(choice string) bool {
	if choice == browserZone {
		return true
	}
	_, err := time.LoadLocation(choice)
	return err == nil && choice != "" && choice != "Local"
}

// zoneChoice is the user's choice: the browser's zone at first.
func zoneChoice(c echo.Context) string {
	if cookie, err := c.Cookie(zoneCookie); err == nil && knownZone(cookie.Value) {
		return cookie.Value
	}
	return browserZone
}

// Zone is where the times of forms are; all that pages show is written in it by their script.
func Zone(c echo.Context) *time.Location {
	name := zoneChoice(c)
	if name == browserZone {
		if cookie, err := c.Cookie(browserZoneCookie); err == nil && knownZone(cookie.Value) {
			name = cookie.Value
		}
	}
	if zone, err := time.LoadLocation(name); err == nil && name != browserZone {
		return zone
	}
	return time.UTC
}
