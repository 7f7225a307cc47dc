package offcpu

import (
	"errors"
	"math/bits"

	"contend/bpf"
	"contend/internal/collect/bpfmap"
)

// harvest is what one window left in the kernel.
type harvest struct {
	sums     map[bpf.OffcpuOffKey]bpf.OffcpuOffSum
	stacks   map[uint64]bpf.OffcpuStack
	counters map[string]int64
	cost     cost
}

// harvest reads the window, or a part of it, that was closed at a reading of the
// clock. No event of it is under way when it reads the sums.
func (c *Collector) harvest(stop int64) (*harvest, error) {
	settle()
	threads, err := c.readThreads()
	if err != nil {
		return nil, err
	}
	settle()
	h := &harvest{cost: c.readCost()}
	if h.sums, err = c.readSums(); err != nil {
		return nil, err
	}
	if h.counters, err = c.readCounters(); err != nil {
		return nil, err
	}
	h.addOpen(threads, uint64(c.part), uint64(stop))
	if h.stacks, err = c.readStacks(); err != nil {
		return nil, err
	}
	for k := range h.sums {
		if k.Edge&uint8(bpf.OffcpuOffEdgeOFF_EDGE_END) != 0 {
			h.counters[counterOpen] += int64(h.sums[k].Count)
		}
		if s, ok := h.stacks[k.User]; k.User != 0 && (!ok || s.N == 0) {
			h.counters[counterUnknown] += int64(h.sums[k].Count)
		}
	}
	h.counters[counterSeeded], h.counters[counterUnread] = int64(c.seeded), int64(c.unread)
	h.counters[counterMissed] = int64(h.cost.missed - c.before.Load().missed)
	return h, nil
}

// addOpen adds the threads that were off the CPU at the window's end, as
// add_interval of offcpu.bpf.c does for the others.
func (h *harvest) addOpen(threads []bpf.OffcpuOpenWait, start, stop uint64) {
	for _, w := range threads {
		if w.Open == 0 || w.Off >= stop {
			continue
		}
		k, begin := w.Key, w.Off
		k.Edge = uint8(bpf.OffcpuOffEdgeOFF_EDGE_END)
		if begin < start {
			begin = start
			k.Edge |= uint8(bpf.OffcpuOffEdgeOFF_EDGE_START)
		}
		waking := stop
		switch {
		case k.State != uint8(bpf.OffcpuOffStateOFF_BLOCKED):
			waking = begin
		case w.Waking != 0:
			waking = min(max(w.Waking, begin), stop)
		}
		k.Bucket = log2(stop - begin)
		s := h.sums[k]
		s.Count++
		s.Sleeping += waking - begin
		s.Runqueue += stop - waking
		s.Max = max(s.Max, stop-begin)
		h.sums[k] = s
	}
}

func (c *Collector) readSums() (map[bpf.OffcpuOffKey]bpf.OffcpuOffSum, error) {
	sums := make(map[bpf.OffcpuOffKey]bpf.OffcpuOffSum)
	var lost []uint32
	err := errors.Join(
		bpfmap.Each(c.objs.OffSums, func(k bpf.OffcpuOffKey, v bpf.OffcpuOffSum) { sums[k] = v }),
		bpfmap.Each(c.objs.LostSums, func(i uint32, v bpf.OffcpuOffSum) {
			if v.Count == 0 {
				return
			}
			const buckets, edges = 64, uint32(bpf.OffcpuOffEdgeOFF_EDGES)
			sums[bpf.OffcpuOffKey{ // no stacks
				State: uint8(i / buckets / edges), Edge: uint8(i / buckets % edges), Bucket: uint8(i % buckets),
			}] = v
			lost = append(lost, i)
		}),
	)
	for _, i := range lost { // the map is an array, it has all keys
		err = errors.Join(err, c.objs.LostSums.Put(i, bpf.OffcpuOffSum{}))
	}
	return sums, err
}

func (c *Collector) readStacks() (map[uint64]bpf.OffcpuStack, error) {
	stacks := make(map[uint64]bpf.OffcpuStack)
	err := bpfmap.Each(c.objs.Stacks, func(id uint64, s bpf.OffcpuStack) { stacks[id] = s })
	return stacks, err
}

// log2 is log2_floor of offcpu.bpf.c.
func log2(v uint64) uint8 {
	if v == 0 {
		return 0
	}
	return uint8(bits.Len64(v) - 1)
}
