package ledger

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

type wireMessage struct {
	key     uint64
	payload []byte
}

func encodeBatch(kind byte, first uint64, messages []wireMessage) []byte {
	w := beginBatch(nil, kind, first)
	for _, m := range messages {
		w.add(m.key, m.payload)
	}
	return w.end()
}

func TestBatchRoundTrip(t *testing.T) {
	want := []wireMessage{{1, []byte("one")}, {2, nil}, {3, bytes.Repeat([]byte("x"), maxPayload)}}
	wire := encodeBatch(kindPublish, 42, want)
	frames := newFrameBuffer(slabSize)
	kind, body, err := frames.next(iotest.OneByteReader(bytes.NewReader(wire)))
	if err != nil || kind != kindPublish {
		t.Fatalf("kind %d, %v", kind, err)
	}
	b, err := parseBatch(body)
	if err != nil || b.first != 42 || b.count != len(want) {
		t.Fatalf("batch %+v, %v", b, err)
	}
	for i, m := range want {
		key, payload, err := b.next()
		if err != nil || key != m.key || !bytes.Equal(payload, m.payload) {
			t.Fatalf("message %d: key %d, %d bytes, %v", i, key, len(payload), err)
		}
	}
	if _, _, err := b.next(); err != io.EOF {
		t.Fatalf("after the last message: %v", err)
	}
}

func TestRangesRoundTrip(t *testing.T) {
	want := []seqRange{{0, 1}, {7, 1 << 20}, {1 << 60, 3}}
	wire := appendRanges(nil, kindReceipt, want)
	_, body, err := newFrameBuffer(slabSize).next(bytes.NewReader(wire))
	if err != nil {
		t.Fatal(err)
	}
	var got []seqRange
	if err := eachRange(body, func(r seqRange) error { got = append(got, r); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("range %d is %v, want %v", i, got[i], want[i])
		}
	}
	if err := eachRange(body[1:], func(seqRange) error { return nil }); !errors.Is(err, errFrame) {
		t.Errorf("a cut range gave %v", err)
	}
}

func TestMalformedFrames(t *testing.T) {
	good := encodeBatch(kindPublish, 1, []wireMessage{{1, []byte("abc")}})
	for name, wire := range map[string][]byte{
		"length 0":      {0, 0, 0, 0, 1},
		"too long":      {0xff, 0xff, 0xff, 0xff, 1},
		"count too big": func() []byte { w := bytes.Clone(good); w[frameHeader+8] = 0xff; return w }(),
		"count too low": func() []byte { w := bytes.Clone(good); w[frameHeader+11] = 0; return w }(),
		"payload long":  func() []byte { w := bytes.Clone(good); w[len(w)-4] = 200; return w }(),
	} {
		if err := readAll(bytes.NewReader(wire)); !errors.Is(err, errFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := readAll(bytes.NewReader(good[:len(good)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut frame gave %v", err)
	}
	if err := readAll(bytes.NewReader(good)); err != nil {
		t.Errorf("the good frame gave %v", err)
	}
}

// readAll parses every frame of r the way the processes do.
func readAll(r io.Reader) error {
	frames := newFrameBuffer(slabSize)
	for {
		kind, body, err := frames.next(r)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := parseAny(kind, body); err != nil {
			return err
		}
	}
}

func parseAny(kind byte, body []byte) error {
	switch kind {
	case kindHello:
		_, _, err := parseHello(body)
		return err
	case kindFlow:
		_, err := parseFlow(body)
		return err
	case kindReceipt, kindAppended:
		return eachRange(body, func(seqRange) error { return nil })
	}
	b, err := parseBatch(body)
	for err == nil {
		var key uint64
		var payload []byte
		if key, payload, err = b.next(); err == nil {
			_, _ = parseHeader(key, payload)
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

func FuzzFrames(f *testing.F) {
	f.Add(appendHello(nil, roleProducer, 7))
	f.Add(appendFlow(nil, 500))
	f.Add(appendRanges(nil, kindReceipt, []seqRange{{1, 2}, {9, 1}}))
	payload := make([]byte, headerSize)
	putHeader(payload, header{device: 5, seq: 6, published: 7})
	f.Add(encodeBatch(kindDeliver, 3, []wireMessage{{5, payload}, {6, payload}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := readAll(bytes.NewReader(data))
		pieces := readAll(iotest.OneByteReader(bytes.NewReader(data)))
		if (whole == nil) != (pieces == nil) {
			t.Errorf("at once: %v; byte by byte: %v", whole, pieces)
		}
	})
}

func TestHeader(t *testing.T) {
	payload := make([]byte, 64)
	want := header{device: 77, seq: 3, published: 123456789, flags: 1}
	putHeader(payload, want)
	got, err := parseHeader(77, payload)
	if err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, f := range map[string]func() error{
		"other key": func() error { _, err := parseHeader(78, payload); return err },
		"too short": func() error { _, err := parseHeader(77, payload[:headerSize-1]); return err },
		"overwritten": func() error {
			bad := bytes.Clone(payload)
			bad[9] ^= 1
			_, err := parseHeader(77, bad)
			return err
		},
	} {
		if err := f(); !errors.Is(err, errMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A frame that spans two slabs must survive while messages hold the first.
func TestFrameBufferMovesToANewSlab(t *testing.T) {
	payload := bytes.Repeat([]byte("p"), 5000)
	var wire []byte
	const n = 40 // 200 kB, several slabs
	for i := range n {
		wire = append(wire, encodeBatch(kindPublish, uint64(i), []wireMessage{{uint64(i), payload}})...)
	}
	frames, r := newFrameBuffer(slabSize), bytes.NewReader(wire)
	var held [][]byte
	var slabsHeld []*slab
	for i := range n {
		_, body, err := frames.next(r)
		if err != nil {
			t.Fatal(err)
		}
		frames.slab.retain(1)
		slabsHeld = append(slabsHeld, frames.slab)
		b, err := parseBatch(body)
		if err != nil || b.first != uint64(i) {
			t.Fatalf("frame %d: first %d, %v", i, b.first, err)
		}
		_, p, err := b.next()
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, p)
	}
	if slabsHeld[0] == slabsHeld[n-1] {
		t.Fatal("everything fitted one slab: the test shows nothing")
	}
	for i, p := range held {
		if !bytes.Equal(p, payload) {
			t.Errorf("payload %d was overwritten while held", i)
		}
	}
	for _, s := range slabsHeld {
		s.release(1)
	}
	frames.close()
	if got := slabsHeld[0].refs.Load(); got != 0 {
		t.Errorf("the first slab has %d references left", got)
	}
}
