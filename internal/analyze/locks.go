package analyze

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"contend/internal/recording"
)

// instance is a lock's address in one process of one side. Addresses of
// different processes never meet.
type instance struct {
	side, process int
	addr          uint64
}

// site is a place that takes a lock, as far as instances are joined by it.
type site struct {
	class, fn string
	line      string // see lineLabels
}

// nameLocks gives every row of the lock table its class. Best name first: a
// rule, the name recorded with the sample, the acquiring sites. Instances
// that share an acquiring site are one class.
func (c *corpus) nameLocks() {
	if c.options.By == ByInstance && len(c.sides) == 1 {
		defer c.splitInstances()
	}
	names := c.instanceNames()
	lines := c.lineLabels()
	byName := map[[2]string]*lockClass{}
	var sets disjointSets
	nodes := map[any]int{}
	node := func(k any) int {
		n, ok := nodes[k]
		if !ok {
			n = sets.add()
			nodes[k] = n
		}
		return n
	}
	// Rows without a name, joined by address and site.
	var anonymous []anonymousRow
	shared := sharedSites{}
	c.forEachLockRow(func(rd *runData, r *row) {
		cls := r.effectiveClass()
		at := instance{rd.side, rd.process, r.addr}
		if name := rowName(r, names[at]); name != "" {
			k := [2]string{name, cls}
			if byName[k] == nil {
				byName[k] = &lockClass{name: name, class: cls}
				c.locks = append(c.locks, byName[k])
			}
			r.lock = byName[k]
			return
		}
		n := node(lines.site(rd.side, r))
		switch {
		case r.addr != 0:
			shared.add(at, n)
		case c.releasedByApp(r):
			// A trace has no addresses. What one line of the application releases is one lock.
			sets.union(n, node(releaseSite{rd.side, cls, r.waker}))
		}
		anonymous = append(anonymous, anonymousRow{r, n})
	})
	shared.join(&sets)
	c.nameBySites(anonymous, &sets)
	c.sortLocks()
}

// releaseSite is a place that gives a lock up.
type releaseSite struct {
	side         int
	class, waker string
}

// releasedByApp tells whether application code ended a wait: a helper of the
// standard library releases many locks at one line.
func (c *corpus) releasedByApp(r *row) bool {
	fn, _, ok := cutLast(r.waker, " ")
	return ok && c.table.function(fn, false).kind == KindApp
}

type anonymousRow struct {
	r    *row
	node int
}

// rowName is a row's own name or that of its instance; rules go before what
// was recorded.
func rowName(r *row, inst instanceName) string {
	return cmp.Or(r.verdict.lockName, inst.rule, r.lockLabel, inst.label)
}

// instanceName is what some rows of an instance say of its name.
type instanceName struct{ rule, label string }

// ambiguous marks an instance of two names: an address used again for another
// lock. It names nothing then.
const ambiguous = "\x00"

// instanceNames collects the names of instances, so that a row without a name
// gets that of its lock.
func (c *corpus) instanceNames() map[instance]instanceName {
	names := map[instance]instanceName{}
	merge := func(have, name string) string {
		if name == "" || have == name {
			return have
		}
		if have == "" {
			return name
		}
		return ambiguous
	}
	c.forEachLockRow(func(rd *runData, r *row) {
		if r.addr == 0 || r.verdict.lockName == "" && r.lockLabel == "" {
			return
		}
		k := instance{rd.side, rd.process, r.addr}
		n := names[k]
		names[k] = instanceName{merge(n.rule, r.verdict.lockName), merge(n.label, r.lockLabel)}
	})
	for k, n := range names {
		if n.rule == ambiguous {
			n.rule = ""
		}
		if n.label == ambiguous {
			n.label = ""
		}
		names[k] = n
	}
	return names
}

// nameBySites names the classes of locks that nothing else names, after the
// function that waits most in them.
func (c *corpus) nameBySites(rows []anonymousRow, sets *disjointSets) {
	type siteSum struct {
		top   *frame
		delay int64
	}
	type group struct {
		class, kind string
		unlock      bool
		sites       map[string]*siteSum // by function key
		lock        *lockClass
	}
	groups := map[int]*group{}
	for _, a := range rows {
		id := sets.find(a.node)
		g := groups[id]
		if g == nil {
			g = &group{class: a.r.effectiveClass(), kind: a.r.lockKind(), unlock: a.r.stack.unlock, sites: map[string]*siteSum{}}
			groups[id] = g
		}
		f := a.r.stack.acquirer()
		if f == nil {
			f = c.table.frame(c.table.function(markUnknown, false), "", 0)
		}
		s := g.sites[f.fn.key]
		if s == nil {
			s = &siteSum{top: f}
			g.sites[f.fn.key] = s
		}
		if frameLess(f, s.top) {
			s.top = f
		}
		s.delay = add(s.delay, a.r.delay)
	}
	sorted := make([]*group, 0, len(groups))
	tops := map[*group]*frame{}
	for _, g := range groups {
		var best *siteSum
		for _, s := range g.sites {
			if best == nil || s.delay > best.delay || s.delay == best.delay && frameLess(s.top, best.top) {
				best = s
			}
		}
		tops[g] = best.top
		name := lockPrefix(g.kind, g.class, g.unlock) + c.table.base(best.top.fn)
		if n := len(g.sites) - 1; n > 0 {
			name += fmt.Sprintf(" +%d %s", n, plural(n, "site"))
		}
		g.lock = &lockClass{name: name, class: g.class}
		sorted = append(sorted, g)
		c.locks = append(c.locks, g.lock)
	}
	slices.SortFunc(sorted, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.lock.name, b.lock.name), compareFrames(tops[a], tops[b]), cmp.Compare(a.class, b.class))
	})
	// Two locks taken in one function are told apart by line, then by number.
	for i := 0; i < len(sorted); {
		j := i + 1
		for j < len(sorted) && sorted[j].lock.name == sorted[i].lock.name {
			j++
		}
		if j > i+1 {
			for k, g := range sorted[i:j] {
				f := tops[g]
				g.lock.name += fmt.Sprintf(" (%s:%d)", path.Base(f.file), f.line)
				if k > 0 && compareFrames(f, tops[sorted[i+k-1]]) == 0 {
					g.lock.name += " #" + strconv.Itoa(k+1)
				}
			}
		}
		i = j
	}
	for _, a := range rows {
		a.r.lock = groups[sets.find(a.node)].lock
	}
}

// base is a function's name without what stands before its package or class.
func (t *table) base(f *function) string {
	if t.jvm && f.kind != KindNative && f.kind != KindMark {
		return javaBase(f.key)
	}
	return withoutPath(f.key)
}

// withoutPath cuts the import path down to the package: server.(*client).read.
func withoutPath(key string) string {
	end := len(key)
	if i := strings.IndexByte(key, '['); i >= 0 {
		end = i
	}
	return key[strings.LastIndexByte(key[:end], '/')+1:]
}

func lockPrefix(kind, cls string, unlock bool) string {
	switch {
	case unlock:
		return "lock released in "
	case kind == kindFDMutex:
		return "file lock in "
	case cls == recording.ClassJoin:
		return "wait group in "
	}
	return "lock in "
}

func compareFrames(a, b *frame) int {
	return cmp.Or(cmp.Compare(a.fn.key, b.fn.key), cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.fn.name, b.fn.name))
}

func frameLess(a, b *frame) bool { return compareFrames(a, b) < 0 }

// splitInstances makes each address a class of its own, for --by instance.
func (c *corpus) splitInstances() {
	split := map[string]*lockClass{}
	processes := 0
	for _, sd := range c.sides {
		processes += sd.processes
	}
	c.locks = nil
	c.forEachLockRow(func(rd *runData, r *row) {
		name := r.lock.name
		switch {
		case r.addr == 0:
			name += " (instance unknown)"
		case processes > 1:
			name += fmt.Sprintf(" @ %#x in process %d", r.addr, rd.process+1)
		default:
			name += fmt.Sprintf(" @ %#x", r.addr)
		}
		l := split[name]
		if l == nil {
			l = &lockClass{name: name, class: r.lock.class}
			split[name] = l
			c.locks = append(c.locks, l)
		}
		r.lock = l
	})
	c.sortLocks()
}

// lineLabels say which lines of a function are the same site on both sides.
type lineLabels struct {
	labels [2]map[lineKey]string
}

type lineKey struct {
	class, fn string
	line      int64
}

// lineLabels prepares the joining of sites between two builds, whose line
// numbers differ. A function that takes locks on the same lines on both sides
// (or on fewer of them on one) keeps its lines; one that takes locks on as
// many lines has them matched in order; else its lines are one site.
func (c *corpus) lineLabels() *lineLabels {
	type fnKey struct{ class, fn string }
	var lines [2]map[fnKey]map[int64]bool
	for i := range lines {
		lines[i] = map[fnKey]map[int64]bool{}
	}
	c.forEachLockRow(func(rd *runData, r *row) {
		if f := r.stack.acquirer(); f != nil {
			k := fnKey{r.effectiveClass(), f.fn.key}
			if lines[rd.side][k] == nil {
				lines[rd.side][k] = map[int64]bool{}
			}
			lines[rd.side][k][f.line] = true
		}
	})
	ll := &lineLabels{}
	for side := range lines {
		ll.labels[side] = map[lineKey]string{}
		for k, own := range lines[side] {
			other := lines[1-side][k]
			sorted := make([]int64, 0, len(own))
			for l := range own {
				sorted = append(sorted, l)
			}
			slices.Sort(sorted)
			for i, l := range sorted {
				label := ""
				switch {
				case subset(own, other) || subset(other, own):
					label = strconv.FormatInt(l, 10)
				case len(own) == len(other):
					label = "#" + strconv.Itoa(i+1)
				}
				ll.labels[side][lineKey{k.class, k.fn, l}] = label
			}
		}
	}
	return ll
}

func subset(a, b map[int64]bool) bool {
	for l := range a {
		if !b[l] {
			return false
		}
	}
	return true
}

func (ll *lineLabels) site(side int, r *row) site {
	cls := r.effectiveClass()
	f := r.stack.acquirer()
	if f == nil {
		return site{class: cls}
	}
	return site{cls, f.fn.key, ll.labels[side][lineKey{cls, f.fn.key, f.line}]}
}

// disjointSets is union-find with path halving.
type disjointSets struct{ parent []int }

func (d *disjointSets) add() int {
	d.parent = append(d.parent, len(d.parent))
	return len(d.parent) - 1
}

func (d *disjointSets) find(i int) int {
	for d.parent[i] != i {
		d.parent[i] = d.parent[d.parent[i]]
		i = d.parent[i]
	}
	return i
}

func (d *disjointSets) union(a, b int) {
	a, b = d.find(a), d.find(b)
	d.parent[max(a, b)] = min(a, b)
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
