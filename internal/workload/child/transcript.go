package child

import (
	"bytes"
	"fmt"
	"sync"
)

// transcriptPart bounds what a Transcript keeps of either end.
const transcriptPart = 64 << 10

// Transcript keeps what was written to it, and of much only the beginning and
// the end. The zero value is ready for use.
type Transcript struct {
	mu         sync.Mutex
	head, tail []byte
	omitted    int64
}

func (t *Transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(b)
	room := min(len(b), transcriptPart-len(t.head))
	t.head = append(t.head, b[:room]...)
	t.tail = append(t.tail, b[room:]...)
	// Cut only once in a while, or every write would move the whole tail.
	if len(t.tail) > 2*transcriptPart {
		over := len(t.tail) - transcriptPart
		t.omitted += int64(over)
		t.tail = append(t.tail[:0], t.tail[over:]...)
	}
	return n, nil
}

// Bytes returns what was kept, with a line in place of what was not.
func (t *Transcript) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := bytes.Clone(t.head)
	if t.omitted > 0 {
		out = fmt.Appendf(out, "\n[… %d bytes left out …]\n", t.omitted)
	}
	return append(out, t.tail...)
}
