package filter

import "fmt"

// Predictor describes how the samples of a stream were made to compress
// better before Flate or LZW. The zero value means PDF's defaults: no
// prediction, one component of 8 bits, one column.
type Predictor struct {
	Algorithm int // 1 none, 2 TIFF, 10 and above PNG
	Colors    int // components of a sample, 1 to 64
	Bits      int // per component: 1, 2, 4, 8 or 16
	Columns   int // samples in a row
}

// maxRow bounds a row of samples; no page is 16 Mi samples wide.
const maxRow = 16 << 20

// Undo returns the bytes of src as they were before prediction, in the place
// of src. It never returns more bytes than it is given. A last row that is cut short is
// returned as far as it goes.
func (p Predictor) Undo(src []byte) ([]byte, error) {
	if p.Algorithm <= 1 {
		return src, nil
	}
	colors, bits, columns := max(p.Colors, 1), p.Bits, max(p.Columns, 1)
	if bits <= 0 {
		bits = 8
	}
	if colors > 64 || bits > 32 || columns > maxRow {
		return src, fmt.Errorf("undo predictor: %d components of %d bits in %d columns", colors, bits, columns)
	}
	row := (colors*bits*columns + 7) / 8
	if row > maxRow {
		return src, fmt.Errorf("undo predictor: row of %d bytes", row)
	}
	pixel := (colors*bits + 7) / 8
	if p.Algorithm == 2 {
		return undoTIFF(src, colors, bits, row), nil
	}
	return undoPNG(src, pixel, row), nil
}

// undoTIFF handles 8 and 16 bits; smaller samples only occur in images, which
// are not decoded here.
func undoTIFF(src []byte, colors, bits, row int) []byte {
	for line := src; len(line) > 0; line = line[min(row, len(line)):] {
		end := min(row, len(line))
		switch bits {
		case 8:
			for i := colors; i < end; i++ {
				line[i] += line[i-colors]
			}
		case 16:
			for i := 2 * colors; i+1 < end; i += 2 {
				left := uint16(line[i-2*colors])<<8 | uint16(line[i-2*colors+1])
				sum := (uint16(line[i])<<8 | uint16(line[i+1])) + left
				line[i], line[i+1] = byte(sum>>8), byte(sum)
			}
		}
	}
	return src
}

func undoPNG(src []byte, pixel, row int) []byte {
	out := src[:0] // shorter by a byte for each row, so it never overtakes what is read
	var above []byte
	for len(src) > 1 {
		tag := src[0]
		start := len(out)
		n := min(row, len(src)-1)
		out = append(out, src[1:1+n]...)
		src = src[1+n:]
		line := out[start:]
		if above == nil {
			undoFirstPNGRow(tag, line, pixel)
		} else {
			undoPNGRow(tag, line, above, pixel)
		}
		above = line
		if n < row {
			break
		}
	}
	return out
}

// undoFirstPNGRow is undoPNGRow for a row that has zeros above it.
func undoFirstPNGRow(tag byte, line []byte, pixel int) {
	for i := pixel; i < len(line); i++ {
		switch tag {
		case 1, 4: // sub, and Paeth where only the left is not zero
			line[i] += line[i-pixel]
		case 3: // average
			line[i] += line[i-pixel] / 2
		}
	}
}

// undoPNGRow adds to line what its filter type took away. An unknown type
// leaves the row as it is.
func undoPNGRow(tag byte, line, above []byte, pixel int) {
	switch tag {
	case 1: // sub
		for i := pixel; i < len(line); i++ {
			line[i] += line[i-pixel]
		}
	case 2: // up
		for i := range line {
			line[i] += above[i]
		}
	case 3: // average
		for i := range line {
			left := 0
			if i >= pixel {
				left = int(line[i-pixel])
			}
			line[i] += byte((left + int(above[i])) / 2)
		}
	case 4: // Paeth
		for i := range line {
			left, corner := 0, 0
			if i >= pixel {
				left, corner = int(line[i-pixel]), int(above[i-pixel])
			}
			line[i] += byte(paeth(left, int(above[i]), corner))
		}
	}
}

func paeth(left, up, corner int) int {
	p := left + up - corner
	pl, pu, pc := distance(p, left), distance(p, up), distance(p, corner)
	switch {
	case pl <= pu && pl <= pc:
		return left
	case pu <= pc:
		return up
	}
	return corner
}

func distance(a, b int) int { return max(a-b, b-a) }
