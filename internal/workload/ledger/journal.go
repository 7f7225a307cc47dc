package ledger

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// segmentSize is where a journal starts a new file.
	segmentSize = 256 << 20
	// recordHeader is a record's length and checksum, big-endian, in front of a
	// batch as it came. The checksum is CRC-32C over the batch.
	recordHeader = 8
)

// A stripe is a bookie's place in its ensemble. Entry e is stored by the
// quorum of bookies that begins with number e mod ensemble: BookKeeper's
// round-robin distribution.
type stripe struct{ ensemble, quorum, index uint64 }

func (s stripe) has(entry uint64) bool {
	return (s.index+s.ensemble-entry%s.ensemble)%s.ensemble < s.quorum
}

// from returns the first entry of the stripe at or after entry.
func (s stripe) from(entry uint64) uint64 {
	for !s.has(entry) {
		entry++
	}
	return entry
}

// after returns the entry that follows n of the stripe's, first being the first of them.
func (s stripe) after(first uint64, n int) uint64 {
	if s.ensemble == s.quorum {
		return first + uint64(n)
	}
	for range n {
		first = s.from(first + 1)
	}
	return first
}

// A journal is a bookie's log on disk: records, group by group, in segments.
// Where it is kept, a bookie started again goes on behind the last whole record.
// Else a segment's name is removed as soon as it is open, so that however the
// process ends no file stays behind, and a full one is given up.
type journal struct {
	dir    string // "" the default temp dir
	kept   bool
	sync   string // SyncNone, SyncBatch or SyncEach
	stripe stripe

	file    *os.File
	size    int64
	segment int    // number of the next one
	group   []byte // records not yet written
	next    uint64 // entry due next
	torn    int64  // bytes cut off the end when it was opened
}

func openJournal(o Options, index int) (*journal, error) {
	j := &journal{
		dir: o.Dir, sync: o.Sync,
		stripe: stripe{uint64(o.Ensemble), uint64(o.WriteQuorum), uint64(index)},
	}
	j.next = j.stripe.from(0)
	if o.JournalDir == "" {
		return j, nil
	}
	j.dir, j.kept = o.JournalDir, true
	if err := j.recover(); err != nil {
		return nil, fmt.Errorf("recovering the journal of bookie %d: %w", index, err)
	}
	return j, nil
}

func (j *journal) path(segment int) string {
	return filepath.Join(j.dir, fmt.Sprintf("bookie-%d-%06d.journal", j.stripe.index, segment))
}

// segments are a bookie's files, oldest first.
func segments(dir string, index int) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("bookie-%d-*.journal", index)))
	slices.Sort(paths)
	return paths, err
}

// recover finds the entry due next, and cuts off the end what a crash left
// unfinished. Only the last segment that holds a record need be read.
func (j *journal) recover() error {
	paths, err := segments(j.dir, int(j.stripe.index))
	if err != nil {
		return err
	}
	j.segment = len(paths)
	for _, path := range slices.Backward(paths) {
		good, err := j.recoverSegment(path)
		if err != nil || good > 0 {
			return err
		}
	}
	return nil
}

// recoverSegment returns the length of what is whole in a segment.
func (j *journal) recoverSegment(path string) (good int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	good, err = scanRecords(f, func(b batch) error {
		j.next = j.stripe.after(b.first, b.count)
		return nil
	})
	var torn *tornError
	if !errors.As(err, &torn) {
		return good, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return good, err
	}
	j.torn += size - good
	if err := f.Truncate(good); err != nil {
		return good, err
	}
	return good, f.Sync()
}

// A tornError says where a segment stops being whole.
type tornError struct {
	at  int64
	why string
}

func (e *tornError) Error() string {
	return fmt.Sprintf("torn at byte %d: %s", e.at, e.why)
}

// scanRecords calls visit for every whole record, and returns the offset behind the
// last. A *tornError says that something else follows.
func scanRecords(r io.Reader, visit func(batch) error) (good int64, err error) {
	in := bufio.NewReaderSize(r, bookieFrame)
	var head [recordHeader]byte
	var body []byte
	torn := func(why string) error { return &tornError{good, why} }
	for {
		switch _, err := io.ReadFull(in, head[:]); {
		case errors.Is(err, io.EOF):
			return good, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return good, torn("half a record's header")
		case err != nil:
			return good, err
		}
		n := int(binary.BigEndian.Uint32(head[:]))
		if n < batchHeader || n > bookieFrame {
			return good, torn(fmt.Sprintf("a record of %d bytes", n))
		}
		body = slices.Grow(body[:0], n)[:n]
		switch _, err := io.ReadFull(in, body); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return good, torn("half a record")
		case err != nil:
			return good, err
		}
		if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(head[4:]) {
			return good, torn("checksum differs")
		}
		b, err := parseBatch(body)
		if err != nil {
			return good, torn(err.Error())
		}
		if err := visit(b); err != nil {
			return good, err
		}
		good += recordHeader + int64(n)
	}
}

// append adds one batch to the group; with SyncEach it is durable, entry by
// entry, when append returns.
func (j *journal) append(body []byte) (seqRange, error) {
	b, err := parseBatch(body)
	if err != nil {
		return seqRange{}, err
	}
	if b.first != j.next {
		return seqRange{}, fmt.Errorf("the broker sent entry %d where %d was due", b.first, j.next)
	}
	r := seqRange{b.first, uint32(b.count)}
	if j.sync != SyncEach {
		j.record(body)
		j.next = j.stripe.after(b.first, b.count)
		return r, nil
	}
	for {
		key, payload, err := b.next()
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return r, err
		}
		w := beginBatch(nil, kindAppend, j.next)
		w.add(key, payload)
		j.record(w.end()[frameHeader:])
		j.next = j.stripe.after(j.next, 1)
		if err := j.commit(); err != nil {
			return r, err
		}
	}
}

func (j *journal) record(body []byte) {
	j.group = binary.BigEndian.AppendUint32(j.group, uint32(len(body)))
	j.group = binary.BigEndian.AppendUint32(j.group, crc32.Checksum(body, castagnoli))
	j.group = append(j.group, body...)
}

// commit writes the group and, if asked to, waits until it is on the disk.
func (j *journal) commit() error {
	if len(j.group) == 0 {
		return nil
	}
	if j.file == nil || j.size >= segmentSize {
		if err := j.roll(); err != nil {
			return err
		}
	}
	n, err := j.file.Write(j.group)
	j.size += int64(n)
	j.group = j.group[:0]
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if j.sync == SyncNone {
		return nil
	}
	if err := unix.Fdatasync(int(j.file.Fd())); err != nil {
		return fmt.Errorf("syncing the journal: %w", err)
	}
	return nil
}

// roll starts a new segment.
func (j *journal) roll() error {
	if err := j.close(); err != nil {
		return err
	}
	var err error
	if !j.kept {
		if j.file, err = os.CreateTemp(j.dir, "contend-segment-*"); err == nil {
			err = os.Remove(j.file.Name())
		}
	} else {
		j.file, err = os.OpenFile(j.path(j.segment), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
		j.segment++
		if err == nil && j.sync != SyncNone {
			err = syncDir(j.dir) // else a power failure may lose the file's name
		}
	}
	if err != nil {
		return fmt.Errorf("creating a journal segment: %w", err)
	}
	j.size = 0
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// readBack reads all journals of an ensemble and counts which of the first n
// entries, those acknowledged, are whole on fewer bookies than the ack quorum.
// What is unfinished at the very end of a journal was never acknowledged.
func readBack(o Options, n uint64) (missing int64, err error) {
	copies := make([]uint8, n)
	for index := range o.Ensemble {
		paths, err := segments(o.JournalDir, index)
		if err != nil {
			return 0, err
		}
		s := stripe{uint64(o.Ensemble), uint64(o.WriteQuorum), uint64(index)}
		for i, path := range paths {
			err := countCopies(path, s, copies)
			var torn *tornError
			if errors.As(err, &torn) && i == len(paths)-1 {
				err = nil
			}
			if err != nil {
				return 0, fmt.Errorf("reading back %s: %w", path, err)
			}
		}
	}
	for _, c := range copies {
		if int(c) < o.AckQuorum {
			missing++
		}
	}
	return missing, nil
}

func countCopies(path string, s stripe, copies []uint8) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = scanRecords(f, func(b batch) error {
		for entry := b.first; ; entry = s.after(entry, 1) {
			key, payload, err := b.next()
			if err == io.EOF {
				return nil
			}
			if err == nil {
				_, err = parseHeader(key, payload)
			}
			if err != nil {
				return fmt.Errorf("entry %d: %w", entry, err)
			}
			if entry < uint64(len(copies)) {
				copies[entry]++
			}
		}
	})
	return err
}
