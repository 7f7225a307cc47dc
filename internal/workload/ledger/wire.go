package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The wire between the three processes. A frame is a 4-byte length of what
// follows, a kind, and a body; all integers are big-endian. Messages travel in
// batches: one frame, and so about one system call, carries many of them.
const (
	frameHeader = 5 // length and kind

	kindHello    = 1 // u8 role, u32 index
	kindPublish  = 2 // u64 first producer sequence, u32 count, messages
	kindReceipt  = 3 // ranges: u64 first producer sequence, u32 count
	kindDeliver  = 4 // u64 unused, u32 count, messages
	kindFlow     = 5 // u32 permits
	kindAppend   = 6 // u64 first entry, u32 count, messages
	kindAppended = 7 // ranges: u64 first entry, u32 count
	kindNext     = 8 // u64 entry that a bookie is due; follows its hello

	batchHeader   = 12 // u64 first, u32 count
	messageHeader = 12 // u64 key, u32 length of the payload
	rangeSize     = 12

	// maxPayload bounds one message, so that a frame of one always fits a slab.
	maxPayload = 16 << 10
)

// Who is at the other end of a connection to the broker.
const (
	roleProducer = 1
	roleConsumer = 2
	roleBookie   = 3
)

var errFrame = errors.New("malformed frame")

// beginFrame starts a frame in dst; endFrame, given len(dst) from before, ends it.
func beginFrame(dst []byte, kind byte) []byte {
	return append(dst, 0, 0, 0, 0, kind)
}

func endFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

func appendHello(dst []byte, role byte, index int) []byte {
	start := len(dst)
	dst = append(beginFrame(dst, kindHello), role)
	dst = binary.BigEndian.AppendUint32(dst, uint32(index))
	return endFrame(dst, start)
}

func parseHello(body []byte) (role byte, index int, err error) {
	if len(body) != 5 {
		return 0, 0, fmt.Errorf("%w: hello of %d bytes", errFrame, len(body))
	}
	return body[0], int(binary.BigEndian.Uint32(body[1:])), nil
}

func appendNext(dst []byte, entry uint64) []byte {
	start := len(dst)
	return endFrame(binary.BigEndian.AppendUint64(beginFrame(dst, kindNext), entry), start)
}

func parseNext(body []byte) (entry uint64, err error) {
	if len(body) != 8 {
		return 0, fmt.Errorf("%w: next entry of %d bytes", errFrame, len(body))
	}
	return binary.BigEndian.Uint64(body), nil
}

func appendFlow(dst []byte, permits int) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(beginFrame(dst, kindFlow), uint32(permits))
	return endFrame(dst, start)
}

func parseFlow(body []byte) (permits int, err error) {
	if len(body) != 4 {
		return 0, fmt.Errorf("%w: flow of %d bytes", errFrame, len(body))
	}
	return int(binary.BigEndian.Uint32(body)), nil
}

// seqRange is a run of consecutive sequence or entry numbers.
type seqRange struct {
	first uint64
	count uint32
}

func appendRanges(dst []byte, kind byte, ranges []seqRange) []byte {
	start := len(dst)
	dst = beginFrame(dst, kind)
	for _, r := range ranges {
		dst = binary.BigEndian.AppendUint64(dst, r.first)
		dst = binary.BigEndian.AppendUint32(dst, r.count)
	}
	return endFrame(dst, start)
}

// eachRange calls f for every range in body, in order, until f fails.
func eachRange(body []byte, f func(seqRange) error) error {
	if len(body)%rangeSize != 0 {
		return fmt.Errorf("%w: ranges in %d bytes", errFrame, len(body))
	}
	for ; len(body) > 0; body = body[rangeSize:] {
		r := seqRange{binary.BigEndian.Uint64(body), binary.BigEndian.Uint32(body[8:])}
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// batchWriter builds one frame of messages at the end of a buffer.
type batchWriter struct {
	buf   []byte
	start int
	count uint32
}

func beginBatch(dst []byte, kind byte, first uint64) batchWriter {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(beginFrame(dst, kind), first)
	return batchWriter{buf: append(dst, 0, 0, 0, 0), start: start}
}

func (w *batchWriter) add(key uint64, payload []byte) {
	w.buf = binary.BigEndian.AppendUint64(w.buf, key)
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(payload)))
	w.buf = append(w.buf, payload...)
	w.count++
}

func (w *batchWriter) size() int { return len(w.buf) - w.start }

func (w *batchWriter) end() []byte {
	binary.BigEndian.PutUint32(w.buf[w.start+frameHeader+8:], w.count)
	return endFrame(w.buf, w.start)
}

// batch iterates over the messages of a frame.
type batch struct {
	first uint64
	count int // messages announced
	rest  []byte
}

func parseBatch(body []byte) (batch, error) {
	if len(body) < batchHeader {
		return batch{}, fmt.Errorf("%w: batch of %d bytes", errFrame, len(body))
	}
	b := batch{
		first: binary.BigEndian.Uint64(body),
		count: int(binary.BigEndian.Uint32(body[8:])),
		rest:  body[batchHeader:],
	}
	if b.count > len(b.rest)/messageHeader {
		return batch{}, fmt.Errorf("%w: %d messages in %d bytes", errFrame, b.count, len(b.rest))
	}
	return b, nil
}

// next returns the next message; the payload aliases the frame. After the
// announced count it returns io.EOF, or an error if bytes are left over.
func (b *batch) next() (key uint64, payload []byte, err error) {
	if b.count == 0 {
		if len(b.rest) > 0 {
			return 0, nil, fmt.Errorf("%w: %d bytes after the last message", errFrame, len(b.rest))
		}
		return 0, nil, io.EOF
	}
	if len(b.rest) < messageHeader {
		return 0, nil, fmt.Errorf("%w: truncated message", errFrame)
	}
	key = binary.BigEndian.Uint64(b.rest)
	n := int(binary.BigEndian.Uint32(b.rest[8:]))
	if n > maxPayload || n > len(b.rest)-messageHeader {
		return 0, nil, fmt.Errorf("%w: message of %d bytes", errFrame, n)
	}
	end := messageHeader + n
	payload = b.rest[messageHeader:end:end]
	b.rest = b.rest[end:]
	b.count--
	return key, payload, nil
}
