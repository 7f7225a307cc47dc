// Package handover holds the primitives under study: the ways in which many
// goroutines hand tasks to one.
package handover
