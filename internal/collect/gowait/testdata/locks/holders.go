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
	at   int64
	kind uint8
	site uint8 // index of sites
}

// sites are the functions that release.
var sites = [...]struct {
	name  string
	reads bool
}{{"main.holdShort", false}, {"main.holdLong", false}, {"main.readShort", true}, {"main.readLong", true}, {"main.writeLong", false}}

const (
	siteShort = iota
	siteLong
	siteReadShort
	siteReadLong
	siteWriteLong
)

// eventLog is one goroutine's, so that logging meets no lock.
type eventLog []event

// enter makes room for all events of a hold, so that none grows the log under the lock.
func (l *eventLog) enter(site uint8) {
	*l = slices.Grow(*l, 3)
	l.add(eventEnter, site)
}

func (l *eventLog) add(kind, site uint8) {
	*l = append(*l, event{nanos(), kind, site})
}

// crowd runs goroutines until a time is over and returns their events in order.
func crowd(length time.Duration, members ...func(end int64, log *eventLog)) []event {
	logs := make([]eventLog, len(members))
	end := nanos() + length.Nanoseconds()
	var wg sync.WaitGroup
	for i, member := range members {
		logs[i] = make(eventLog, 0, 1<<8)
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
// between, and one hold it for a long time now and then. Where they do not think
// and the short time makes a round of all longer than 1 ms, each waiter has waited
// that long when its turn comes: the mutex stays in starvation mode.
func barge(k int, length, hold, think time.Duration) ledger {
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
				holdShort(mu, hold, log)
				if think > 0 {
					time.Sleep(think)
				}
			}
		})
	}
	return charged(crowd(length, members...))
}

//go:noinline
func holdShort(mu *sync.Mutex, hold time.Duration, log *eventLog) {
	log.enter(siteShort)
	mu.Lock()
	log.add(eventAcquire, siteShort)
	spin(hold)
	log.add(eventRelease, siteShort)
	mu.Unlock() // @short
}

//go:noinline
func holdLong(mu *sync.Mutex, log *eventLog) {
	log.enter(siteLong)
	mu.Lock()
	log.add(eventAcquire, siteLong)
	spin(longHold)
	log.add(eventRelease, siteLong)
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
	log.enter(siteReadShort)
	rw.RLock()
	log.add(eventAcquire, siteReadShort)
	time.Sleep(200 * time.Microsecond)
	log.add(eventRelease, siteReadShort)
	rw.RUnlock() // @readshort
}

//go:noinline
func readLong(rw *sync.RWMutex, log *eventLog) {
	log.enter(siteReadLong)
	rw.RLock()
	log.add(eventAcquire, siteReadLong)
	time.Sleep(4 * time.Millisecond)
	log.add(eventRelease, siteReadLong)
	rw.RUnlock() // @readlong
}

//go:noinline
func writeLong(rw *sync.RWMutex, log *eventLog) {
	log.enter(siteWriteLong)
	rw.Lock()
	log.add(eventAcquire, siteWriteLong)
	time.Sleep(time.Millisecond)
	log.add(eventRelease, siteWriteLong)
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
		site := sites[e.site]
		switch e.kind {
		case eventEnter:
			waiting++
			if !site.reads {
				writers++
			}
		case eventAcquire:
			waiting--
			if site.reads {
				readers++
			} else {
				writers--
			}
		case eventRelease:
			led.Waits++ // releases
			switch {
			case !site.reads:
				held[site.name] += uncharged
				uncharged, perReader = 0, 0
			case writers > 0:
				perReader += uncharged / float64(readers)
				held[site.name] += perReader
				uncharged = 0
			}
			if site.reads {
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
