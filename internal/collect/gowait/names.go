package gowait

import (
	"contend/bpf"
	"contend/internal/collect/lockname"
	"contend/internal/collect/symbolize"
	"contend/internal/recording"
)

const (
	// counterSites counts stacks that waited for a lock or a WaitGroup.
	counterSites = "lock_sites"
	// counterUnnamed counts those of them whose lock has no name: the report then
	// names it by the sites that take it.
	counterUnnamed = "lock_sites_unnamed"
	// counterDisagree counts those of them that two sources name differently.
	counterDisagree = "lock_sites_disagree"
)

// lockNames are the names of the locks of one capture.
type lockNames struct {
	sites     map[uint64]lockname.Name // by stack
	locks     map[uint64]lockname.Name // by address, what is sure of all that waited there
	weak      map[uint64]lockname.Name // by address, all that is known of it
	texts     map[string]string        // of names: what they are shown as
	unnamed   int64
	disagreed int64
	source    string // of the names, or why there is none
}

// noName marks an address of which two names are known: it was used again for
// another lock, or pointers of several names lead to it.
var noName = lockname.Name{Text: "\x00"}

// nameLocks names each lock by what its sites say of it. A name that is a struct's
// own field, or a global, is that of the stack, whatever the others say: an address is used
// again. A name of a pointer to the lock gives way to those.
func nameLocks(waits map[uint64][]uint64, stacks map[uint64]bpf.GowaitStack, b *symbolize.Binary, bias uint64) *lockNames {
	names := &lockNames{
		sites: make(map[uint64]lockname.Name), locks: make(map[uint64]lockname.Name),
		weak: make(map[uint64]lockname.Name), texts: make(map[string]string),
	}
	pcs := make(map[uint64][]uint64, len(waits))
	all := make([][]uint64, 0, len(waits))
	var locks []uint64
	for id, addrs := range waits {
		for _, addr := range addrs {
			locks = append(locks, addr-bias)
		}
		st := stacks[id]
		for _, pc := range st.Pcs[:min(int(st.N), len(st.Pcs))] {
			pcs[id] = append(pcs[id], pc-bias)
		}
		all = append(all, pcs[id])
	}
	namer := lockname.New(b, all, locks)
	defer namer.Close()
	names.source = namer.Source()
	var retakes []uint64
	for id, addrs := range waits {
		name, err := namer.Site(pcs[id])
		if lockname.Retakes(err) {
			retakes = append(retakes, id)
		}
		if lockname.Disagree(err) {
			names.disagreed++
		}
		names.sites[id] = name
		for _, addr := range addrs {
			if global, ok := namer.Global(addr - bias); ok {
				names.locks[addr] = global
				continue
			}
			if name.Text == "" {
				continue
			}
			if !name.Weak {
				merge(names.locks, addr, name)
			}
			merge(names.weak, addr, name)
		}
	}
	names.nameRetaken(retakes, waits)
	for id, addrs := range waits {
		if name := names.of(id, addrs...); name == "" {
			names.unnamed++
		}
	}
	names.tellApart()
	return names
}

// nameRetaken names the locks that a Cond takes again at one site where all of
// them that others take too are of one name.
func (n *lockNames) nameRetaken(stacks []uint64, waits map[uint64][]uint64) {
	for _, id := range stacks {
		one := make(map[uint64]lockname.Name)
		for _, addr := range waits[id] {
			if name, ok := n.locks[addr]; ok {
				merge(one, 0, name)
			}
		}
		if name, ok := one[0]; ok && name != noName {
			name.Weak, name.Global = true, false
			n.sites[id] = name
		}
	}
}

func merge(names map[uint64]lockname.Name, addr uint64, name lockname.Name) {
	if have, ok := names[addr]; ok && have.Full != name.Full {
		name = noName
	}
	names[addr] = name
}

// tellApart shows names with their import path where two would read alike.
func (n *lockNames) tellApart() {
	full := make(map[string]string)
	clash := make(map[string]bool)
	note := func(names map[uint64]lockname.Name) {
		for _, name := range names {
			if have, ok := full[name.Text]; ok && have != name.Full {
				clash[name.Text] = true
			}
			full[name.Text] = name.Full
		}
	}
	note(n.sites)
	note(n.locks)
	for text := range clash {
		n.texts[text] = "" // Full is shown
	}
}

// of is the name of the lock at any of the addresses for which a stack waits; ""
// if it has none.
func (n *lockNames) of(stack uint64, addrs ...uint64) string {
	if n == nil {
		return ""
	}
	site := n.sites[stack]
	for _, addr := range addrs {
		if name, ok := n.locks[addr]; ok && addr != 0 && (site.Text == "" || site.Weak || name.Global) && name != noName {
			return n.text(name)
		}
	}
	if !site.Weak {
		return n.text(site)
	}
	for _, addr := range addrs {
		if name, ok := n.weak[addr]; ok && addr != 0 {
			if name == noName {
				return ""
			}
			return n.text(name)
		}
	}
	return n.text(site)
}

func (n *lockNames) text(name lockname.Name) string {
	if _, clashes := n.texts[name.Text]; clashes {
		return name.Full
	}
	return name.Text
}

// lockWaits lists the stacks that wait for locks and WaitGroups, with the
// addresses they wait for.
func (h *harvest) lockWaits() map[uint64][]uint64 {
	waits := make(map[uint64][]uint64)
	seen := make(map[[2]uint64]bool)
	add := func(stack, sema uint64) {
		kind := h.waits.resolve(stack).kind
		if stack == 0 || seen[[2]uint64{stack, sema}] || kind.class != recording.ClassLock && kind.class != recording.ClassJoin {
			return
		}
		seen[[2]uint64{stack, sema}] = true
		addr := sema
		if kind.owner != nil && sema != 0 {
			addr = kind.owner(sema)
		}
		if waits[stack] = append(waits[stack], addr); addr == 0 {
			waits[stack] = waits[stack][:len(waits[stack])-1]
		}
	}
	for _, w := range h.snapshot.waits {
		add(w.Waiter, w.Addr)
	}
	for _, g := range h.goroutines {
		if g.Queued != 0 || g.Ready != 0 {
			add(g.Key.Waiter, g.Key.Addr)
		}
	}
	for _, w := range h.standing {
		add(w.g, w.sema)
	}
	return waits
}
