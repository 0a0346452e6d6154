package page

import (
	"time"
	_ "time/tzdata" // minimal systems have no zones

	"github.com/labstack/echo/v4"
)

// Cookies for time zones: the user's choice, and the browser's zone, which the script of every page stores.
const (
	zoneCookie        = "wakecall_zone"
	browserZoneCookie = "wakecall_browser_zone"
	browserZone       = "browser" // the choice of the browser's zone
)

// knownZone reports whether a choice is the browser's zone, UTC or a named one.
func knownZone(choice string) bool {
	if choice == browserZone {
		return true
	}
	_, err := time.LoadLocation(choice)
	return err == nil && choice != "" && choice != "Local"
}

// zoneChoice returns the user's choice, initially the browser's zone.
func zoneChoice(c echo.Context) string {
	if cookie, err := c.Cookie(zoneCookie); err == nil && knownZone(cookie.Value) {
		return cookie.Value
	}
	return browserZone
}

// Zone returns the zone of times in forms. The script of every page converts all shown times to it.
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
