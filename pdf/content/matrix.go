package content

import (
	"github.com/batchfleet/batchfleet/pdf/cos"
)

// matrix is a transformation [a b c d e f]: x' = ax + cy + e, y' = bx + dy + f.
type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

// mul returns the transformation that applies m first and then n.
func (m matrix) mul(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// move returns the transformation that moves by (x, y) first and then does m.
func (m matrix) move(x, y float64) matrix {
	m[4] += x*m[0] + y*m[2]
	m[5] += x*m[1] + y*m[3]
	return m
}

// readMatrix returns o as a matrix, the identity if it is none.
func readMatrix(file *cos.File, o cos.Object) matrix {
	a := file.Array(o)
	if len(a) != 6 {
		return identity
	}
	var m matrix
	for i := range m {
		m[i], _ = file.Number(a[i])
	}
	return m
}
