package ledger

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// slabSize is how much is read from a connection at once. Messages stay in the
// slab they were read into until they have been dispatched; a slab that is
// filled densely, frame behind frame, costs no more memory than the messages in it.
const slabSize = 64 << 10

// A slab is a read buffer shared by the messages inside it and its reader.
type slab struct {
	refs atomic.Int32
	buf  []byte
}

var slabs = sync.Pool{New: func() any { return &slab{buf: make([]byte, slabSize)} }}

func newSlab() *slab {
	s := slabs.Get().(*slab)
	s.refs.Store(1)
	return s
}

func (s *slab) retain(n int) { s.refs.Add(int32(n)) }

// release gives up n references; the last one returns the slab to the pool.
func (s *slab) release(n int) {
	switch left := s.refs.Add(int32(-n)); {
	case left == 0 && len(s.buf) == slabSize:
		slabs.Put(s)
	case left < 0:
		panic("ledger: slab released more often than retained")
	}
}

// A frameBuffer cuts what is read from a connection into frames. The caller
// reads into space, reports with filled, and takes frames until there is none.
type frameBuffer struct {
	slab *slab
	r, w int
}

// newFrameBuffer returns a buffer for frames of up to size bytes.
func newFrameBuffer(size int) *frameBuffer {
	if size == slabSize {
		return &frameBuffer{slab: newSlab()}
	}
	s := &slab{buf: make([]byte, size)}
	s.refs.Store(1)
	return &frameBuffer{slab: s}
}

// space returns where to read to; it is never empty.
func (b *frameBuffer) space() []byte {
	if b.r == b.w && b.slab.refs.Load() == 1 {
		b.r, b.w = 0, 0
	}
	// A read of less than a quarter is not worth its system call.
	if len(b.slab.buf)-b.w < len(b.slab.buf)/4 {
		b.move()
	}
	return b.slab.buf[b.w:]
}

// move makes room: in place if nobody else uses the slab, else in a new one.
func (b *frameBuffer) move() {
	rest := b.slab.buf[b.r:b.w]
	if b.slab.refs.Load() == 1 {
		copy(b.slab.buf, rest)
	} else {
		next := newSlab()
		copy(next.buf, rest)
		b.slab.release(1)
		b.slab = next
	}
	b.r, b.w = 0, len(rest)
}

func (b *frameBuffer) filled(n int) { b.w += n }

// frame returns the next whole frame, whose body aliases the slab; ok is false
// when more must be read first.
func (b *frameBuffer) frame() (kind byte, body []byte, ok bool, err error) {
	have := b.slab.buf[b.r:b.w]
	if len(have) < frameHeader {
		return 0, nil, false, nil
	}
	n := int(binary.BigEndian.Uint32(have))
	if n < 1 || n > len(b.slab.buf)/2 {
		return 0, nil, false, fmt.Errorf("%w: length %d", errFrame, n)
	}
	if len(have) < 4+n {
		return 0, nil, false, nil
	}
	b.r += 4 + n
	return have[4], have[frameHeader : 4+n : 4+n], true, nil
}

// next reads from r until there is a whole frame. io.EOF means that the
// connection ended between two frames.
func (b *frameBuffer) next(r io.Reader) (kind byte, body []byte, err error) {
	for {
		kind, body, ok, err := b.frame()
		if ok || err != nil {
			return kind, body, err
		}
		n, err := r.Read(b.space())
		b.filled(n)
		if n == 0 && err != nil {
			if err == io.EOF && b.w > b.r {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
	}
}

// close gives up the reader's own reference.
func (b *frameBuffer) close() { b.slab.release(1) }
