package analyze

import "slices"

// sharedSites are the sites at which each instance was taken, as nodes of the
// disjoint sets that become classes. Sites that share an instance are one class,
// unless that instance is no evidence.
type sharedSites map[instance][]int

func (m sharedSites) add(at instance, site int) {
	if !slices.Contains(m[at], site) {
		m[at] = append(m[at], site)
	}
}

// reused is the number of other instances that each of two sites must have been seen
// with, and never with the other site, before an instance that was taken at both is
// held for two: an address that the garbage collector freed and that became another
// lock's. Were the sites of one class, some of those others would have met both.
const reused = 3

// join unites the sites of every instance.
func (m sharedSites) join(sets *disjointSets) {
	seen := map[int]int{}        // site → instances
	together := map[[2]int]int{} // two sites → instances taken at both
	pair := func(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }
	for _, sites := range m {
		for i, a := range sites {
			seen[a]++
			for _, b := range sites[:i] {
				together[pair(a, b)]++
			}
		}
	}
	for _, sites := range m {
		for i, a := range sites {
			for _, b := range sites[:i] {
				alone := together[pair(a, b)] == 1
				if !alone || seen[a]-1 < reused || seen[b]-1 < reused {
					sets.union(a, b)
				}
			}
		}
	}
}
