package render

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"contend/internal/analyze"
)

// Folded stacks: one line a stack, frames from the root joined by ";", a space,
// and the stack's own value; a differential graph has two values, baseline and
// candidate. Values are in the flame's unit.
//
// Inside a frame, the bytes that have a meaning here or cannot be seen are
// written \xNN: ";", the backslash, control characters and invalid UTF-8.
// Replacing every \xNN by its byte after splitting gives the names back exactly.
func writeFolded(w io.Writer, f *analyze.Flame) error {
	out := bufio.NewWriter(w)
	eachStack(f.Root, func(stack []*analyze.Node, self [2]float64) {
		for i, n := range stack {
			if i > 0 {
				out.WriteByte(';')
			}
			out.WriteString(foldedName(n.Name))
		}
		out.WriteByte(' ')
		out.WriteString(raw(self[0]))
		if f.Sides == 2 {
			out.WriteByte(' ')
			out.WriteString(raw(self[1]))
		}
		out.WriteByte('\n')
	})
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write folded stacks: %w", err)
	}
	return nil
}

func foldedName(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		if r == ';' || r == '\\' || r == utf8.RuneError && size == 1 || hidden(r) {
			for _, c := range []byte(name[i : i+size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		} else {
			b.WriteString(name[i : i+size])
		}
		i += size
	}
	return b.String()
}

// eachStack calls f for every node with a value of its own, in the order of the
// tree. The root, which stands for "all", is not part of a stack. stack is
// reused between calls.
func eachStack(root *analyze.Node, f func(stack []*analyze.Node, self [2]float64)) {
	if root == nil {
		return
	}
	var stack []*analyze.Node
	var walk func(n *analyze.Node)
	walk = func(n *analyze.Node) {
		stack = append(stack, n)
		if self := selfValue(n); self != [2]float64{} {
			f(stack, self)
		}
		for _, c := range n.Children {
			walk(c)
		}
		stack = stack[:len(stack)-1]
	}
	for _, c := range root.Children {
		walk(c)
	}
}

// selfValue is what a node has beyond its children. Sums of floats may miss by
// their rounding; such a remainder is nothing.
func selfValue(n *analyze.Node) [2]float64 {
	self := n.Values
	for _, c := range n.Children {
		self[0] -= c.Values[0]
		self[1] -= c.Values[1]
	}
	for i := range self {
		if self[i] < n.Values[i]*1e-9 {
			self[i] = 0
		}
	}
	return self
}
