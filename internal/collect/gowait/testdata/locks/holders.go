package main

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Holds of the designed size: many that are short, and a long one now and then.
const (
	shortHold = 2 * time.Microsecond
	longHold  = 500 * time.Microsecond
	longEvery = 5 * time.Millisecond
)

// What a goroutine logs of its use of a lock.
const (
	eventEnter   = iota // it asks for the lock
	eventAcquire        // it has it
	eventRelease        // it is about to release it
)

type event struct {
	at     int64
	kind   uint8
	reader bool
	site   string // of a release
}

// eventLog is one goroutine's, so that logging meets no lock.
type eventLog []event

func (l *eventLog) add(kind uint8, reader bool, site string) {
	*l = append(*l, event{nanos(), kind, reader, site})
}

// crowd runs goroutines until a time is over and returns their events in order.
func crowd(length time.Duration, members ...func(end int64, log *eventLog)) []event {
	logs := make([]eventLog, len(members))
	end := nanos() + length.Nanoseconds()
	var wg sync.WaitGroup
	for i, member := range members {
		logs[i] = make(eventLog, 0, 1<<16)
		wg.Go(func() { member(end, &logs[i]) })
	}
	wg.Wait()
	var events []event
	for _, l := range logs {
		events = append(events, l...)
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return events
}

// barge has k goroutines hold a mutex for a short time, over and over, thinking
// between, and one hold it for a long time now and then.
func barge(k int, length, think time.Duration) ledger {
	mu := new(sync.Mutex)
	members := []func(int64, *eventLog){func(end int64, log *eventLog) {
		for nanos() < end {
			holdLong(mu, log)
			time.Sleep(longEvery)
		}
	}}
	for range k {
		members = append(members, func(end int64, log *eventLog) {
			for nanos() < end {
				holdShort(mu, log)
				if think > 0 {
					time.Sleep(think)
				}
			}
		})
	}
	return charged(crowd(length, members...))
}

//go:noinline
func holdShort(mu *sync.Mutex, log *eventLog) {
	log.add(eventEnter, false, "")
	mu.Lock()
	log.add(eventAcquire, false, "")
	spin(shortHold)
	log.add(eventRelease, false, "main.holdShort")
	mu.Unlock() // @short
}

//go:noinline
func holdLong(mu *sync.Mutex, log *eventLog) {
	log.add(eventEnter, false, "")
	mu.Lock()
	log.add(eventAcquire, false, "")
	spin(longHold)
	log.add(eventRelease, false, "main.holdLong")
	mu.Unlock() // @long
}

func spin(d time.Duration) {
	for until := nanos() + d.Nanoseconds(); nanos() < until; {
	}
}

// rwbarge has k goroutines read-lock a RWMutex for a short time, one for a long
// time, and two write-lock it.
func rwbarge(k int, length, think time.Duration) ledger {
	rw := new(sync.RWMutex)
	var members []func(int64, *eventLog)
	add := func(n int, hold func(*sync.RWMutex, *eventLog), pause time.Duration) {
		for range n {
			members = append(members, func(end int64, log *eventLog) {
				for nanos() < end {
					hold(rw, log)
					time.Sleep(pause)
				}
			})
		}
	}
	add(k, readShort, think)
	add(2, readLong, 2*think)
	add(2, writeLong, 2*think)
	return charged(crowd(length, members...))
}

// Readers and writers sleep under the lock, so that on any number of cores they
// are in at the same time.

//go:noinline
func readShort(rw *sync.RWMutex, log *eventLog) {
	log.add(eventEnter, true, "")
	rw.RLock()
	log.add(eventAcquire, true, "")
	time.Sleep(200 * time.Microsecond)
	log.add(eventRelease, true, "main.readShort")
	rw.RUnlock() // @readshort
}

//go:noinline
func readLong(rw *sync.RWMutex, log *eventLog) {
	log.add(eventEnter, true, "")
	rw.RLock()
	log.add(eventAcquire, true, "")
	time.Sleep(4 * time.Millisecond)
	log.add(eventRelease, true, "main.readLong")
	rw.RUnlock() // @readlong
}

//go:noinline
func writeLong(rw *sync.RWMutex, log *eventLog) {
	log.add(eventEnter, false, "")
	rw.Lock()
	log.add(eventAcquire, false, "")
	time.Sleep(time.Millisecond)
	log.add(eventRelease, false, "main.writeLong")
	rw.Unlock() // @writelong
}

// charged gives each site its holds' charges: at a release, all that those who ask
// for the lock have waited since the release before. Readers share it: one that
// leaves before a writer that waits takes, of each interval, the share of one of
// those that were in. Who asks for the lock and who is in its queue differ by the
// time spent spinning and until a goroutine that was woken runs.
func charged(events []event) ledger {
	led := ledger{Held: map[string]int64{}}
	var waiting, writers, readers int64 // who ask, of them for writing; who read
	var uncharged, perReader float64
	last := events[0].at
	held := map[string]float64{}
	for _, e := range events {
		waited := float64(waiting * (e.at - last))
		uncharged += waited
		led.DelayNS += int64(waited)
		last = e.at
		switch e.kind {
		case eventEnter:
			waiting++
			if !e.reader {
				writers++
			}
		case eventAcquire:
			waiting--
			if e.reader {
				readers++
			} else {
				writers--
			}
		case eventRelease:
			led.Waits++ // releases
			switch {
			case !e.reader:
				held[e.site] += uncharged
				uncharged, perReader = 0, 0
			case writers > 0:
				perReader += uncharged / float64(readers)
				held[e.site] += perReader
				uncharged = 0
			}
			if e.reader {
				if readers--; readers == 0 {
					perReader = 0
				}
			}
		}
	}
	for site, ns := range held {
		led.Held[site] = int64(ns)
	}
	return led
}
