package analyze

import (
	"cmp"
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// exactLimit is the number of pairs up to which the signed-rank distribution is
// computed exactly; its normal approximation is good to three digits of p well
// before.
const exactLimit = 200

// signedRank is Wilcoxon's signed-rank test of paired differences (Biometrics
// Bulletin 1, 1945): the two-sided p of the hypothesis that they are symmetric
// about zero. Zero differences are dropped, as Wilcoxon does, and ties share
// their mean rank; p is exact, from the permutation distribution given the
// ties (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd
// ed., §3.1), up to exactLimit differences.
func signedRank(d []float64) (p float64) {
	ranks, plus := signedRanks(d)
	n := len(ranks)
	if n == 0 {
		return 1
	}
	total := 0
	for _, r := range ranks {
		total += r
	}
	low := min(plus, total-plus)
	if n > exactLimit {
		var variance float64 // of the doubled sum: Σr²/4, ties included
		for _, r := range ranks {
			variance += float64(r) * float64(r) / 4
		}
		z := (float64(low) + 1 - float64(total)/2) / math.Sqrt(variance) // half of a doubled step of 2
		return min(2*stats.StdNormal.CDF(z), 1)
	}
	tail := 0.0
	for s, q := range rankSumDistribution(ranks) {
		if s <= low {
			tail += q
		}
	}
	return min(2*tail, 1)
}

// signedRanks returns the doubled ranks of |d| (doubled, so that mean ranks of
// ties are whole) and the doubled sum of the ranks of the positive ones.
func signedRanks(d []float64) (ranks []int, plus int) {
	var nz []float64
	for _, x := range d {
		if x != 0 {
			nz = append(nz, x)
		}
	}
	slices.SortFunc(nz, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	ranks = make([]int, len(nz))
	for i := 0; i < len(nz); {
		j := i
		for j < len(nz) && math.Abs(nz[j]) == math.Abs(nz[i]) {
			j++
		}
		for k := i; k < j; k++ {
			ranks[k] = i + 1 + j // 2 × mean of the ranks i+1 … j
			if nz[k] > 0 {
				plus += ranks[k]
			}
		}
		i = j
	}
	return ranks, plus
}

// rankSumDistribution is the probability of each sum when every rank is taken
// with probability one half.
func rankSumDistribution(ranks []int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	prob := make([]float64, total+1)
	prob[0] = 1
	top := 0
	for _, r := range ranks {
		top += r
		for s := top; s >= 0; s-- {
			q := prob[s]
			if s >= r {
				q += prob[s-r]
			}
			prob[s] = q / 2
		}
	}
	return prob
}

// walsh returns the Walsh averages (dᵢ+dⱼ)/2, i ≤ j, sorted.
func walsh(d []float64) []float64 {
	w := make([]float64, 0, len(d)*(len(d)+1)/2)
	for i := range d {
		for j := i; j < len(d); j++ {
			w = append(w, d[i]/2+d[j]/2)
		}
	}
	slices.Sort(w)
	return w
}

// hodgesLehmann is the median of sorted Walsh averages: the estimate that goes
// with the signed-rank test (Annals of Mathematical Statistics 34, 1963).
func hodgesLehmann(w []float64) float64 {
	n := len(w)
	if n == 0 {
		return 0
	}
	return w[(n-1)/2]/2 + w[n/2]/2
}

// walshInterval is the interval of the centre that the signed-rank test does
// not reject (Tukey; Hollander, Wolfe, Chicken, §3.3): between the k-th Walsh
// average from either end, with the largest k whose coverage is at least the
// confidence. It is false when n differences cannot give it: 95 % needs six.
func walshInterval(w []float64, n int, confidence float64) (low, high float64, ok bool) {
	alpha := 1 - confidence
	k := 0
	if n > exactLimit {
		mean := float64(n) * float64(n+1) / 4
		sd := math.Sqrt(float64(n) * float64(n+1) * float64(2*n+1) / 24)
		k = int(math.Floor(mean + stats.StdNormal.InvCDF(alpha/2)*sd))
	} else {
		ranks := make([]int, n)
		for i := range ranks {
			ranks[i] = i + 1
		}
		tail := 0.0
		for s, q := range rankSumDistribution(ranks) {
			if tail += q; tail > alpha/2 {
				k = s // P(T ≤ k−1) ≤ α/2
				break
			}
		}
	}
	if k < 1 || k > len(w)/2 {
		return 0, 0, false
	}
	return w[k-1], w[len(w)-k], true
}

// holm adjusts p values for their number (Holm, Scandinavian Journal of
// Statistics 6, 1979), in place of the order they came in.
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted := make([]float64, len(p))
	running := 0.0
	for rank, i := range order {
		running = max(running, min(p[i]*float64(len(p)-rank), 1))
		adjusted[i] = running
	}
	return adjusted
}

// Power of the signed-rank test, for what an inconclusive row could have
// shown. Under near-normal differences it needs π/3 times the pairs of a t
// test (its asymptotic relative efficiency is 3/π; Lehmann: Nonparametrics,
// §4.2), so n ≈ (π/3)·((z_{1−α/2}+z_{power})·σ/δ)².
const wantedPower = 0.8

// detectable is the smallest |ln ratio| that n pairs of standard deviation sd
// show with wantedPower at level alpha; false when n pairs can never reach it,
// the least p of n pairs being 2^(1−n).
func detectable(n int, sd, alpha float64) (float64, bool) {
	if n < 2 || math.Exp2(1-float64(n)) > alpha {
		return 0, false
	}
	return zSum(alpha) * sd * math.Sqrt(math.Pi/3/float64(n)), true
}

// maxPairs ends the search for the number of pairs: nobody runs more.
const maxPairs = 100000

// pairsFor is the number of pairs that shows a |ln ratio| of delta with
// wantedPower at level alpha.
func pairsFor(delta, sd, alpha float64) int {
	least := int(math.Ceil(1 - math.Log2(alpha)))
	n := math.Ceil(math.Pi / 3 * math.Pow(zSum(alpha)*sd/delta, 2))
	return int(min(max(n, float64(least)), maxPairs))
}

func zSum(alpha float64) float64 {
	return stats.StdNormal.InvCDF(1-alpha/2) + stats.StdNormal.InvCDF(wantedPower)
}

// meanOf, medianOf and stdDev are the sample's mean, median and standard deviation.
func meanOf(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	return stats.Mean(x)
}

func medianOf(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	if len(s) == 0 {
		return 0
	}
	return s[(len(s)-1)/2]/2 + s[len(s)/2]/2
}

func stdDev(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	return stats.StdDev(x)
}
