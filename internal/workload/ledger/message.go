package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// headerSize is what a payload starts with; zeros fill the rest.
const headerSize = 32

// A header identifies a message from end to end.
type header struct {
	device    uint64
	seq       uint64 // per device, from 0
	published int64  // the load generator's clock, ns
	flags     uint32 // reserved
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errMessage = errors.New("invalid message")

// putHeader writes h and its checksum to the first headerSize bytes of payload.
func putHeader(payload []byte, h header) {
	binary.BigEndian.PutUint64(payload, h.device)
	binary.BigEndian.PutUint64(payload[8:], h.seq)
	binary.BigEndian.PutUint64(payload[16:], uint64(h.published))
	binary.BigEndian.PutUint32(payload[24:], h.flags)
	binary.BigEndian.PutUint32(payload[28:], crc32.Checksum(payload[:28], castagnoli))
}

// parseHeader reads a payload's header. The checksum shows a payload that was
// overwritten on its way, as by a buffer given back too early.
func parseHeader(key uint64, payload []byte) (header, error) {
	if len(payload) < headerSize {
		return header{}, fmt.Errorf("%w: payload of %d bytes", errMessage, len(payload))
	}
	if got, want := crc32.Checksum(payload[:28], castagnoli), binary.BigEndian.Uint32(payload[28:]); got != want {
		return header{}, fmt.Errorf("%w: checksum %08x instead of %08x", errMessage, got, want)
	}
	h := header{
		device:    binary.BigEndian.Uint64(payload),
		seq:       binary.BigEndian.Uint64(payload[8:]),
		published: int64(binary.BigEndian.Uint64(payload[16:])),
		flags:     binary.BigEndian.Uint32(payload[24:]),
	}
	if h.device != key {
		return header{}, fmt.Errorf("%w: key %d on a message of device %d", errMessage, key, h.device)
	}
	return h, nil
}
