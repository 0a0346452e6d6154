// Package helm has the tests of the chart.
package helm
