package ledger

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// segmentSize is where the bookie starts a new segment. The old one is given
// up: nothing reads entries back, the broker's cache serves them.
const segmentSize = 256 << 20

// runBookie is the bookie process: it appends entries to its segment, commits
// them group by group and answers each group. A group is whatever arrived
// while the last one was being written.
func runBookie(conn net.Conn, o Options) error {
	seg := &segment{dir: o.Dir, sync: o.Sync == SyncBatch}
	defer seg.close()
	frames := newFrameBuffer(4 * bookieFrame)
	defer frames.close()
	var answer []byte
	var ranges []seqRange
	for {
		n, err := conn.Read(frames.space())
		frames.filled(n)
		if n == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading from the broker: %w", err)
		}
		if ranges, err = seg.appendFrames(frames, ranges[:0]); err != nil {
			return err
		}
		if len(ranges) == 0 {
			continue
		}
		if err := seg.commit(); err != nil {
			return err
		}
		answer = appendRanges(answer[:0], kindAppended, ranges)
		if _, err := conn.Write(answer); err != nil {
			return fmt.Errorf("answering the broker: %w", err)
		}
	}
}

// A segment is the file that entries are appended to.
type segment struct {
	dir  string
	sync bool
	file *os.File
	size int64
	next uint64 // entry due next
}

// appendFrames appends the entries of every whole frame, and their ranges to dst.
func (s *segment) appendFrames(frames *frameBuffer, dst []seqRange) ([]seqRange, error) {
	for {
		kind, body, ok, err := frames.frame()
		if err != nil || !ok {
			return dst, err
		}
		if kind != kindAppend {
			return dst, fmt.Errorf("reading from the broker: %w: kind %d", errFrame, kind)
		}
		b, err := parseBatch(body)
		if err != nil {
			return dst, err
		}
		if b.first != s.next {
			return dst, fmt.Errorf("the broker sent entry %d where %d was due", b.first, s.next)
		}
		if err := s.append(body); err != nil {
			return dst, err
		}
		s.next += uint64(b.count)
		dst = append(dst, seqRange{b.first, uint32(b.count)})
	}
}

// append writes one batch, as it came, behind the last one.
func (s *segment) append(batch []byte) error {
	if s.file == nil || s.size >= segmentSize {
		if err := s.roll(); err != nil {
			return err
		}
	}
	n, err := s.file.Write(batch)
	s.size += int64(n)
	if err != nil {
		return fmt.Errorf("appending to a segment: %w", err)
	}
	return nil
}

// roll starts a new segment. Its name is removed at once: however the process
// ends, no file stays behind.
func (s *segment) roll() error {
	if err := s.close(); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "contend-segment-*")
	if err != nil {
		return fmt.Errorf("creating a segment: %w", err)
	}
	s.file, s.size = f, 0
	return os.Remove(f.Name())
}

// commit makes what was appended durable, if asked to.
func (s *segment) commit() error {
	if !s.sync {
		return nil
	}
	if err := unix.Fdatasync(int(s.file.Fd())); err != nil {
		return fmt.Errorf("committing a segment: %w", err)
	}
	return nil
}

func (s *segment) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
