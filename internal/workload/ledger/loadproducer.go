package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"

	"contend/internal/workload"
)

// A producer is a gateway of the load generator: a connection, the devices
// behind it, and one goroutine that sends while it may and else reads receipts.
type producer struct {
	load     *load
	id       int
	conn     net.Conn
	frames   *frameBuffer
	recorder *workload.Recorder // shared with a few others
	rng      *rand.Rand
	buf      []byte
	payload  []byte

	first    uint64   // the first of this producer's devices
	sequence []uint32 // next sequence by device
	idle     []uint32 // devices without a message in flight
	window   []flying // messages in flight, a ring by producer sequence

	due      float64 // paced: messages due by now and not sent
	interval float64 // paced: ns from one to the next; 0 is unpaced
	paced    int64   // paced: when due was reckoned

	meter flightMeter
	sent  atomic.Int64
	acked atomic.Int64
}

type flying struct {
	device    uint32
	published int64
}

func newProducer(l *load, id int, conn net.Conn) *producer {
	o := l.options
	devices := o.Devices / o.Producers
	p := &producer{
		load: l, id: id, conn: conn,
		frames:   newFrameBuffer(slabSize),
		recorder: l.publish[id%len(l.publish)],
		rng:      rand.New(rand.NewPCG(o.Seed, uint64(id))),
		payload:  make([]byte, o.Payload),
		first:    uint64(id * devices),
		sequence: make([]uint32, devices),
		idle:     make([]uint32, devices),
		window:   make([]flying, o.perProducer()),
	}
	for i := range p.idle {
		p.idle[i] = uint32(i)
	}
	if o.Rate > 0 {
		p.interval = float64(o.Producers) / o.Rate * float64(time.Second)
		p.due = p.rng.Float64() // else all producers send in step
	}
	return p
}

func (p *producer) inFlight() int { return int(p.sent.Load() - p.acked.Load()) }

// run sends until the load stops and everything sent is acknowledged.
func (p *producer) run() error {
	defer p.conn.Close()
	p.paced = p.load.now()
	for {
		stopping := p.load.stopping.Load()
		if stopping && p.inFlight() == 0 {
			return nil
		}
		if n := p.allowed(); n > 0 && !stopping {
			if err := p.send(n); err != nil {
				return err
			}
		}
		if p.interval > 0 {
			_ = p.conn.SetReadDeadline(p.nextDue())
		}
		if err := p.receive(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// nextDue is when a paced producer must look up from reading; never, if only a
// receipt lets it go on. A deadline in the past would keep it from reading.
func (p *producer) nextDue() time.Time {
	if p.due >= 1 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration((1 - p.due) * p.interval))
}

// allowed is how many messages to send now. Unpaced, a producer waits until it
// may send a whole burst: one write for each receipt would be all system calls.
func (p *producer) allowed() int {
	free := len(p.window) - p.inFlight()
	if p.interval == 0 {
		if free < min(p.load.options.Burst, len(p.window)) {
			return 0
		}
		return free
	}
	now := p.load.now()
	p.due += float64(now-p.paced) / p.interval
	p.paced = now
	// What could not be sent in time is sent late, but never more than a window
	// of it: a pause is no reason for a burst without end.
	p.due = min(p.due, float64(len(p.window)))
	return min(free, int(p.due))
}

// send publishes n messages of random idle devices.
func (p *producer) send(n int) error {
	now := p.load.now()
	seq := p.sent.Load()
	w := beginBatch(p.buf[:0], kindPublish, uint64(seq))
	for range n {
		if w.size()+messageHeader+len(p.payload) > slabSize/2 {
			w = beginBatch(w.end(), kindPublish, uint64(seq))
		}
		device := p.pick()
		key := p.first + uint64(device)
		putHeader(p.payload, header{device: key, seq: uint64(p.sequence[device]), published: now})
		p.sequence[device]++
		p.window[seq%int64(len(p.window))] = flying{device, now}
		w.add(key, p.payload)
		seq++
	}
	p.buf = w.end()
	if p.interval > 0 {
		p.due -= float64(n)
	}
	p.meter.add(now, int64(n))
	p.sent.Store(seq) // before the write: a message is in flight from its stamp on
	if _, err := p.conn.Write(p.buf); err != nil {
		return fmt.Errorf("producer %d: publishing: %w", p.id, err)
	}
	return nil
}

// pick takes a random device out of the idle ones.
func (p *producer) pick() uint32 {
	i := p.rng.IntN(len(p.idle))
	last := len(p.idle) - 1
	device := p.idle[i]
	p.idle[i] = p.idle[last]
	p.idle = p.idle[:last]
	return device
}

// receive waits for one frame of receipts.
func (p *producer) receive() error {
	kind, body, err := p.frames.next(p.conn)
	if err == nil && kind != kindReceipt {
		err = fmt.Errorf("%w: kind %d", errFrame, kind)
	}
	if err != nil {
		return fmt.Errorf("producer %d: waiting for receipts: %w", p.id, err)
	}
	now := p.load.now()
	p.recorder.Lock()
	defer p.recorder.Unlock()
	return eachRange(body, func(r seqRange) error {
		acked := p.acked.Load()
		if r.first != uint64(acked) || int64(r.count) > p.sent.Load()-acked {
			return fmt.Errorf("producer %d: %d receipts from %d on, where %d was due", p.id, r.count, r.first, acked)
		}
		for range r.count {
			m := p.window[acked%int64(len(p.window))]
			p.idle = append(p.idle, m.device)
			p.recorder.Record(now - m.published)
			acked++
		}
		p.meter.add(now, -int64(r.count))
		p.acked.Store(acked)
		return nil
	})
}
