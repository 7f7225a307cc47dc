package analyze

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// gateTarget is the quantity that a gate names, or why there is none.
type gateTarget struct {
	q       *quantity
	missing string
}

// target finds what a gate names, by the name itself or as the tables show it.
// What only got another name is found under either.
func (g *Gate) target(qs []*quantity) gateTarget {
	if g.By == "throughput" {
		return gateTarget{}
	}
	same := []func(name string) bool{
		func(name string) bool { return name == g.Name },
		func(name string) bool { return name != "" && nameAsGiven(name) == nameAsGiven(g.Name) },
	}
	for _, is := range same {
		var found []*quantity
		for _, q := range qs {
			if q.by == g.By && (is(q.name) || is(q.movedFrom)) {
				found = append(found, q)
			}
		}
		mostFirst(found)
		if len(found) == 1 || len(found) > 1 && found[0].name == g.Name {
			return gateTarget{q: found[0]}
		}
		if len(found) > 1 {
			return gateTarget{missing: fmt.Sprintf("nothing was checked: %d rows have the name %q; give one in full: %s",
				len(found), g.Name, nameSome(found))}
		}
	}
	if fixedNames[g.By] != "" { // a kind of wait that these recordings cannot see
		return gateTarget{missing: fmt.Sprintf("nothing was checked: %s is not captured on both sides", g.Name)}
	}
	missing := fmt.Sprintf("nothing was checked: no %s is called %q on either side", g.By, g.Name)
	if some := nameSome(g.alike(qs)); some != "" {
		missing += "; there is " + some
	}
	return gateTarget{missing: missing}
}

// alike are the quantities that a gate may mean: those whose names hold its, or
// else all of their table.
func (g *Gate) alike(qs []*quantity) []*quantity {
	var all, holding []*quantity
	for _, q := range qs {
		if q.by != g.By {
			continue
		}
		all = append(all, q)
		if strings.Contains(strings.ToLower(q.name), strings.ToLower(g.Name)) {
			holding = append(holding, q)
		}
	}
	if len(holding) > 0 {
		return holding
	}
	return all
}

// nameSome names those of some quantities that wait most.
func nameSome(qs []*quantity) string {
	const few = 3
	mostFirst(qs)
	var names []string
	for _, q := range qs[:min(len(qs), few)] {
		names = append(names, fmt.Sprintf("%q", q.name))
	}
	if len(qs) > few {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// mostFirst sorts quantities by the longer wait of their sides.
func mostFirst(qs []*quantity) {
	most := func(q *quantity) int64 { return max(q.cells.total(0).delay, q.cells.total(1).delay) }
	slices.SortFunc(qs, func(a, b *quantity) int {
		return cmp.Or(cmp.Compare(most(b), most(a)), cmp.Compare(a.name, b.name), cmp.Compare(classOfLock(a.lock), classOfLock(b.lock)))
	})
}

// moreSites is the end of an unnamed lock's name that counts the other sites
// where it is taken. One site more or less makes it no other lock.
var moreSites = regexp.MustCompile(` \+[0-9]+ sites?\b`)

// nameAsGiven is what a name has in common with what a reader copies from a
// table.
func nameAsGiven(name string) string {
	return strings.Join(strings.Fields(moreSites.ReplaceAllString(ShortName(name), "")), " ")
}

// ShortName is a name as tables show it: without the import path before the
// package, and without long type arguments.
func ShortName(name string) string {
	name = shortTypeArguments(name)
	head := name
	if i := strings.IndexAny(name, "([ "); i >= 0 {
		head = name[:i]
	}
	if i := strings.LastIndexByte(head, '/'); i >= 0 && strings.Contains(head[i:], ".") {
		return name[i+1:]
	}
	return name
}

// longTypeArguments is the length beyond which type arguments hide the function they belong to.
const longTypeArguments = 24

func shortTypeArguments(name string) string {
	open := strings.IndexByte(name, '[')
	end := strings.LastIndexByte(name, ']')
	// A leading bracket is a mark such as "[stack lost]".
	if open <= 0 || end-open <= longTypeArguments {
		return name
	}
	return name[:open] + "[...]" + name[end+1:]
}
