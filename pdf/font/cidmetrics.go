package font

import "github.com/batchfleet/batchfleet/pdf/cos"

// cidMetrics tells how far characters move the pen along the line, for a font
// size of 1.
type cidMetrics struct {
	listed spans[float64]
	other  float64 // for the CIDs not listed
}

func (m *cidMetrics) advance(cid uint32) float64 {
	if e := m.listed.find(cid); e != nil {
		return e.value
	}
	return m.other
}

// horizontalMetrics reads DW and W of a CIDFont: the widths, in thousandths.
func horizontalMetrics(file *cos.File, descendant cos.Dict) cidMetrics {
	m := cidMetrics{other: 1}
	if w, ok := file.Number(descendant["DW"]); ok {
		m.other = w / 1000
	}
	m.read(file, file.Array(descendant["W"]), 1, 1000)
	return m
}

// verticalMetrics reads DW2 and W2 of a CIDFont. Of the three numbers for a
// character the first moves the pen, in thousandths and downwards if negative;
// the others place the glyph, which does not matter for text.
func verticalMetrics(file *cos.File, descendant cos.Dict) cidMetrics {
	m := cidMetrics{other: 1}
	if d := file.Array(descendant["DW2"]); len(d) >= 2 {
		if v, ok := file.Number(d[1]); ok {
			m.other = -v / 1000
		}
	}
	m.read(file, file.Array(descendant["W2"]), 3, -1000)
	return m
}

// read reads an array of "first [v …]" and "first last v" with n numbers for
// each v, and uses the first of them; unit makes 1.
func (m *cidMetrics) read(file *cos.File, list cos.Array, n int, unit float64) {
	for len(list) >= 2 && file.Spend(32) {
		first, ok := file.Int(list[0])
		if !ok || first < 0 || first > maxCID {
			break
		}
		if each, isList := file.Resolve(list[1]).(cos.Array); isList {
			for i := 0; i+n <= len(each) && first <= maxCID && file.Spend(32); i += n {
				if v, ok := file.Number(each[i]); ok {
					m.add(uint32(first), uint32(first), v/unit)
				}
				first++
			}
			list = list[2:]
			continue
		}
		if len(list) < 2+n {
			break
		}
		last, ok := file.Int(list[1])
		v, okValue := file.Number(list[2])
		if ok && okValue && last >= first && last <= maxCID {
			m.add(uint32(first), uint32(last), v/unit)
		}
		list = list[2+n:]
	}
	m.listed.sort()
}

// add appends to the span before where it can: ideographs are all as wide.
func (m *cidMetrics) add(first, last uint32, v float64) {
	if n := len(m.listed.list); n > 0 {
		if e := &m.listed.list[n-1]; e.hi+1 == first && e.value == v {
			e.hi = last
			return
		}
	}
	m.listed.add(first, last, v)
}
