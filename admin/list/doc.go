// Package list is what all lists of the web admin share: the page or cursor that is shown, the columns that it can be
// sorted by, and the query of the URL that keeps these and the filters. The templates partials/pager and
// partials/list_heads show them.
package list
