package zpe

import (
	"math"
	"slices"
)

// eigen returns the eigenvalues of a symmetric matrix in no order, and in the same
// order the eigenvectors, orthonormal, by Jacobi's rotations: slow and exact.
func eigen(matrix [][]float64) (values []float64, vectors [][]float64) {
	n := len(matrix)
	values, vectors = make([]float64, n), make([][]float64, n)
	a := make([][]float64, n)
	for i := range n {
		a[i] = slices.Clone(matrix[i])
		vectors[i] = make([]float64, n)
		vectors[i][i] = 1
	}
	for range 100 { // 6 to 10 sweeps are enough
		off, all := 0.0, 0.0
		for i := range n {
			for j := range n {
				all += a[i][j] * a[i][j]
				if i != j {
					off += a[i][j] * a[i][j]
				}
			}
		}
		if off <= 1e-30*all {
			break
		}
		for p := range n {
			for q := p + 1; q < n; q++ {
				rotate(a, vectors, p, q)
			}
		}
	}
	for i := range n {
		values[i] = a[i][i]
	}
	return values, vectors
}

// rotate makes a[p][q] zero, and turns the rows of vectors along.
func rotate(a, vectors [][]float64, p, q int) {
	if a[p][q] == 0 {
		return
	}
	theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
	t := 1 / (math.Abs(theta) + math.Sqrt(theta*theta+1))
	if theta < 0 {
		t = -t
	}
	c := 1 / math.Sqrt(t*t+1)
	s := t * c
	for k := range a {
		a[k][p], a[k][q] = c*a[k][p]-s*a[k][q], s*a[k][p]+c*a[k][q]
	}
	for k := range a {
		a[p][k], a[q][k] = c*a[p][k]-s*a[q][k], s*a[p][k]+c*a[q][k]
		vectors[p][k], vectors[q][k] = c*vectors[p][k]-s*vectors[q][k], s*vectors[p][k]+c*vectors[q][k]
	}
	a[p][q], a[q][p] = 0, 0
}

// orthonormal returns an orthonormal basis of what the vectors span, in their
// order. A vector adds nothing if the part orthogonal to those before it is shorter than
// tolerance of its length.
func orthonormal(vectors [][]float64, tolerance float64) [][]float64 {
	var basis [][]float64
	for _, v := range vectors {
		w := slices.Clone(v)
		length := math.Sqrt(inner(w, w))
		for range 2 { // once more for the rounding errors of the first time
			for _, b := range basis {
				along := inner(w, b)
				for i := range w {
					w[i] -= along * b[i]
				}
			}
		}
		left := math.Sqrt(inner(w, w))
		if length == 0 || left < tolerance*length {
			continue
		}
		for i := range w {
			w[i] /= left
		}
		basis = append(basis, w)
	}
	return basis
}

// complement returns an orthonormal basis of what is orthogonal to the
// orthonormal vectors given, in n dimensions.
func complement(basis [][]float64, n int) [][]float64 {
	all := slices.Clone(basis)
	for len(all) < n {
		// The unit vector with the longest orthogonal part, which is at least 1/sqrt(n).
		best, most := 0, -1.0
		for i := range n {
			isNew := 1.0
			for _, b := range all {
				isNew -= b[i] * b[i]
			}
			if isNew > most {
				best, most = i, isNew
			}
		}
		unit := make([]float64, n)
		unit[best] = 1
		all = orthonormal(append(all, unit), 0)
	}
	return all[len(basis):]
}

// inBasis returns the matrix in the given basis.
func inBasis(a, basis [][]float64) [][]float64 {
	small := make([][]float64, len(basis))
	for i := range basis {
		row := make([]float64, len(a))
		for k := range a {
			row[k] = inner(a[k], basis[i])
		}
		small[i] = make([]float64, len(basis))
		for j := range basis {
			small[i][j] = inner(row, basis[j])
		}
	}
	return small
}

func inner(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
