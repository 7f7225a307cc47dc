// Package student has the one quantile of Student's t distribution that 95 % intervals need.
package student

import "math"

// T975 is the 0.975 quantile of Student's t distribution: by its expansion in
// the normal quantile (Abramowitz and Stegun, 26.7.5), which from five degrees of
// freedom on is right to 0.1 %. df is at least 1.
func T975(df int) float64 {
	if small := []float64{12.7062, 4.3027, 3.1824, 2.7764}; df <= len(small) {
		return small[df-1]
	}
	const z = 1.959963984540054
	v := float64(df)
	z3, z5, z7, z9 := z*z*z, math.Pow(z, 5), math.Pow(z, 7), math.Pow(z, 9)
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z7+19*z5+17*z3-15*z)/(384*v*v*v) +
		(79*z9+776*z7+1482*z5-1920*z3-945*z)/(92160*v*v*v*v)
}
