// Package fp reads the frame pointer. It is a package of its own because one that
// uses cgo may hold no Go assembly.
package fp

// Get returns its caller's frame pointer.
func Get() uintptr
