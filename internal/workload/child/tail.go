package child

import (
	"bytes"
	"fmt"
	"sync"
)

const (
	tailSize = 8 << 10 // kept of a child's output: a Go panic's first lines and some goroutines
	lineSize = 512     // kept of one line
)

// tail keeps the last bytes written to it, and the first line of a Go panic,
// which the goroutine dump after it would push out.
type tail struct {
	mu    sync.Mutex
	kept  []byte
	line  []byte // the line under way: the runtime writes one in several pieces
	panic string
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for part := range bytes.Lines(b) {
		t.line = append(t.line, part[:min(len(part), lineSize-len(t.line))]...)
		if part[len(part)-1] == '\n' {
			t.endLine()
		}
	}
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

func (t *tail) endLine() {
	if t.panic == "" && (bytes.HasPrefix(t.line, []byte("panic: ")) || bytes.HasPrefix(t.line, []byte("fatal error: "))) {
		t.panic = string(bytes.TrimSpace(t.line))
	}
	t.line = t.line[:0]
}

// last returns the most telling line as the end of an error message, or "".
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.panic
	if text == "" {
		lines := bytes.Split(bytes.TrimSpace(t.kept), []byte("\n"))
		text = string(bytes.TrimSpace(lines[len(lines)-1]))
	}
	if text == "" {
		return ""
	}
	return fmt.Sprintf("; it said: %.200s", text)
}
